"""How a rendered page is written down as HTML: shadow roots, frames and captured answers are parts of it."""

SERIALIZE = """
() => {
    const roots = [], collect = root => {
        for (const element of root.querySelectorAll('*'))
            if (element.shadowRoot) { roots.push(element.shadowRoot); collect(element.shadowRoot); }
    };
    collect(document);
    const html = document.documentElement;
    for (const field of document.querySelectorAll('input, textarea, option'))
        if (field.tagName === 'TEXTAREA') field.textContent = field.value;
    const shell = html.cloneNode(false).outerHTML, end = shell.lastIndexOf('</');
    const doctype = document.doctype ? `<!DOCTYPE ${document.doctype.name}>` : '';
    return doctype + shell.slice(0, end) + html.getHTML({shadowRoots: roots, serializableShadowRoots: true})
        + shell.slice(end);
}
"""
"""A function of a page that gives its document, open shadow roots as `<template shadowrootmode>`."""
CAPTURED = '\n<script type="application/json" data-capture="{name}">{text}</script>'
"""An answer that the page asked for, behind its document. Its `</` is written `<\\/`, which JSON reads as the same."""
FRAME = '\n<div data-frame="{url}">{text}</div>'
"""The body of a frame, behind the document."""
