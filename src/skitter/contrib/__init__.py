"""Other systems that crawl with skitter. Nothing of skitter imports them."""
