"""From a page's bytes to what a spider works with: text, selectors, links and items. No I/O."""
