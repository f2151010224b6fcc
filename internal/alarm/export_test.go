package alarm

// Runs returns the number of runs in c.
func (c *Clock[T]) Runs() int { return len(c.heap) }
