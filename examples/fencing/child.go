package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A child is a teller in a process of its own.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewScanner(out)}, cmd.Start()
}

// print passes on up to n lines of what the child says, all of them if n is negative.
func (c *child) print(n int) error {
	for ; n != 0; n-- {
		if !c.out.Scan() {
			if n < 0 {
				return c.out.Err()
			}
			return fmt.Errorf("a teller has ended: %w", io.ErrUnexpectedEOF)
		}
		fmt.Println(c.out.Text())
	}
	return nil
}

// goOn lets the child write what it has read, and waits for its end.
func (c *child) goOn() error {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return err
	}
	if err := c.print(-1); err != nil {
		return err
	}
	return c.cmd.Wait()
}

// end ends a child that goOn has not waited for.
func (c *child) end() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}
