"""A screen that counts the pages done."""

from crawl_console.tui.screens.base import View


class ShopView(View):
    NAME = "shop"

    def show(self, poll):
        self.done = poll.snapshot.jobs["done"]
