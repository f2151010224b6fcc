package alarm

// Runs is the number of runs that c has made of its entries.
func (c *Clock[T]) Runs() int { return len(c.heap) }
