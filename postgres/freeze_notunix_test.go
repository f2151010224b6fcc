//go:build !unix

package postgres

func (p *process) freeze() { p.t.Skip("no process can be frozen here") }
