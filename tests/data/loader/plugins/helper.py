"""A helper process: fetches the URL of each line it reads, and answers with a line of JSON."""

import base64
import json
import sys
import urllib.error
import urllib.request

for line in sys.stdin:
    request = json.loads(line)
    try:
        response = urllib.request.urlopen(urllib.request.Request(request["url"], headers=request["headers"]))
    except urllib.error.HTTPError as error:
        response = error  # an answer, too
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        continue
    with response:
        answer = {
            "url": response.url,
            "status": response.status,
            "headers": dict(response.headers),
            "body": base64.b64encode(response.read()).decode(),
        }
    print(json.dumps(answer), flush=True)
