"""What defs make of pages: on the fetch loop where that is certainly cheap, else in processes that can be killed."""
