"""How settings reach a gateway; in shadow, nothing here is constructed but `noop`."""
