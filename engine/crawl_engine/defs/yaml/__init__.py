"""The YAML of the defs: files, trees and places."""
