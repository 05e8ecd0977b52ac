"""A CronJob of Kubernetes, with the claim for its data directory."""

import json
import subprocess
from pathlib import Path

from crawl_console.schedule.schedule import Schedule
from crawl_engine.errors import StorageError, UsageError

_SECONDS = 60.0
_STOP_RESERVE = 2.0
_FINAL_CODES = (1, 2, 4, 130, 143)
"""Exit codes after which another pod would change nothing, or that somebody asked for."""
_MANAGER = "crawl-console"
_ZONES = "/zoneinfo/"

_MANIFEST = """\
{mark}
# The defs and crawl.toml are in a ConfigMap, the variables of the crawl in a Secret, the data directory in a claim:
#   kubectl create configmap {name}-defs --from-file={defs}
#   kubectl create secret generic {name}-env --from-env-file=crawl.env
# Put your image into the CronJob: docs/deploy/Containerfile builds one.
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {name}-data
  labels: {{app: crawl-console, app.kubernetes.io/managed-by: {manager}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 10Gi}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {name}
  labels: {{app: crawl-console, app.kubernetes.io/managed-by: {manager}}}
spec:
  schedule: {cron}
  timeZone: {zone}
  # A crawl that still runs is not disturbed: the next start is left out.
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 3600
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 6
      podFailurePolicy:
        rules:
          # A node that is drained or lost: the next pod resumes the run.
          - {{action: Ignore, onPodConditions: [{{type: DisruptionTarget}}]}}
          # 1: failed jobs or missing rows; 2: wrong defs or settings; 4: another run holds the data directory;
          # 130 and 143: cancelled. Another pod would change nothing.
          - {{action: FailJob, onExitCodes: {{operator: In, values: {codes}}}}}
      template:
        metadata:
          labels: {{app: crawl-console, schedule: {name}}}
        spec:
          restartPolicy: Never
          # SIGTERM: running jobs may finish. A stop takes at most {stop:g} s (`stop_within`).
          terminationGracePeriodSeconds: {grace:.0f}
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            fsGroup: 1000
            seccompProfile: {{type: RuntimeDefault}}
          containers:
            - name: crawler
              image: registry.example/crawl-console:latest
              workingDir: /defs
              command: {command}
              envFrom:
                - secretRef: {{name: {name}-env, optional: true}}
              securityContext:
                allowPrivilegeEscalation: false
                readOnlyRootFilesystem: true
                capabilities: {{drop: [ALL]}}
              resources:
                requests: {{cpu: "1", memory: 1Gi}}
                limits: {{memory: 2Gi}}
              volumeMounts:
                - {{name: defs, mountPath: /defs, readOnly: true}}
                - {{name: data, mountPath: /data}}
                - {{name: tmp, mountPath: /tmp}}
          volumes:
            - name: defs
              configMap: {{name: {name}-defs}}
            - name: data
              persistentVolumeClaim: {{claimName: {name}-data}}
            - name: tmp
              emptyDir: {{}}
"""


def render(schedule: Schedule) -> str:
    """The manifest. Paths are those of the container; the folder of the defs holds crawl.toml, too."""
    command = ["crawl-console", "run", "--no-ui", "--defs", "/defs", "--data", "/data", *schedule.options]
    return _MANIFEST.format(
        mark=schedule.mark,
        name=schedule.name,
        defs=_quote_path(schedule.defs),
        manager=_MANAGER,
        cron=json.dumps(schedule.times.cron),
        zone=json.dumps(_local_zone()),
        codes=list(_FINAL_CODES),
        stop=schedule.stop_seconds,
        grace=schedule.stop_seconds + _STOP_RESERVE,
        command=json.dumps(command),
    )


def install(schedule: Schedule) -> list[str]:
    """Apply the manifest; returns notes for the user. Raises UsageError, StorageError."""
    found = _call("get", "cronjob", schedule.name, "--ignore-not-found", "-o", "json")
    if found.strip():
        labels = json.loads(found).get("metadata", {}).get("labels", {})
        if labels.get("app.kubernetes.io/managed-by") != _MANAGER:
            raise UsageError(
                f"cronjob {schedule.name}: exists, and `crawl-console schedule` did not make it; nothing was changed",
                "Choose another NAME.",
            )
    _call("apply", "-f", "-", text=render(schedule))
    return [
        f"it needs the ConfigMap {schedule.name}-defs, and your image: --print has the commands",
        f"remove it: kubectl delete cronjob {schedule.name}",
    ]


def _call(*words: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(
            ["kubectl", *words], input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise UsageError("kubectl is not installed here", "Use --print, and apply the manifest elsewhere.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"kubectl {words[0]}: {error}", "Use --print.") from error
    if done.returncode:
        raise StorageError(f"kubectl {words[0]}: {done.stderr.strip()}", "Check its context, or use --print.")
    return done.stdout


def _local_zone() -> str:
    """The name of this machine's time zone, such as Europe/Berlin; UTC if it has none."""
    target = str(Path("/etc/localtime").resolve())
    return target.partition(_ZONES)[2] or "Etc/UTC"


def _quote_path(path: Path) -> str:
    text = str(path)
    return json.dumps(text) if " " in text else text
