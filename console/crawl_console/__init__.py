"""The command line, headless mode and the terminal console. The engine never imports it.

Authors of steps, converters, parsers, loaders, middleware, encoders and appenders import these names from here.
"""

TYPE_CHECKING = False  # type checkers take it for True; typing would cost a start 2 ms

if TYPE_CHECKING:
    from crawl_engine.plugins.contracts import (
        Appender as Appender,
    )
    from crawl_engine.plugins.contracts import (
        Converter as Converter,
    )
    from crawl_engine.plugins.contracts import (
        Document as Document,
    )
    from crawl_engine.plugins.contracts import (
        Encoder as Encoder,
    )
    from crawl_engine.plugins.contracts import (
        LoadContext as LoadContext,
    )
    from crawl_engine.plugins.contracts import (
        Loader as Loader,
    )
    from crawl_engine.plugins.contracts import (
        Middleware as Middleware,
    )
    from crawl_engine.plugins.contracts import (
        NotApplicable as NotApplicable,
    )
    from crawl_engine.plugins.contracts import (
        PageRequest as PageRequest,
    )
    from crawl_engine.plugins.contracts import (
        PageResponse as PageResponse,
    )
    from crawl_engine.plugins.contracts import (
        Parser as Parser,
    )
    from crawl_engine.plugins.contracts import (
        Row as Row,
    )
    from crawl_engine.plugins.contracts import (
        Step as Step,
    )
    from crawl_engine.plugins.contracts import (
        StepContext as StepContext,
    )
    from crawl_engine.plugins.contracts import (
        StepError as StepError,
    )
    from crawl_engine.plugins.contracts import (
        StepStore as StepStore,
    )

__all__ = [
    "Appender",
    "Converter",
    "Document",
    "Encoder",
    "LoadContext",
    "Loader",
    "Middleware",
    "NotApplicable",
    "PageRequest",
    "PageResponse",
    "Parser",
    "Row",
    "Step",
    "StepContext",
    "StepError",
    "StepStore",
]


def __getattr__(name: str) -> object:
    """A name of the contracts: commands that run no plugin do not import them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawl_engine.plugins import contracts

    return getattr(contracts, name)
