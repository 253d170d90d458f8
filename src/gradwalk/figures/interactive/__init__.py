"""The figures as Plotly draws them on the page, from the same tables as the printable ones."""
