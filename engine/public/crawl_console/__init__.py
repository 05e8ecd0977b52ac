"""What authors of steps, converters, parsers, loaders, middleware, encoders and appenders import."""

from engine.plugins.contracts import (
    Appender,
    Converter,
    Document,
    Encoder,
    LoadContext,
    Loader,
    Middleware,
    NotApplicable,
    PageRequest,
    PageResponse,
    Parser,
    Row,
    Step,
    StepContext,
    StepError,
    StepStore,
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
