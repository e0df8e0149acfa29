"""Exec, attach and port-forward over HTTP: the URLs that CRI answers with, and what is behind them.

Nothing here is imported, and no port opened, until the first such call.
"""
