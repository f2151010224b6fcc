package lockhttp

// maxLogging is how many messages may wait for a logger that blocks. Further messages are dropped.
const maxLogging = 10_000

// warn logs in the background. A logger can block, for example on a pipe that nobody reads. It must not delay a reply,
// and it must not keep Server.mu locked.
func (s *Server) warn(message string, args ...any) {
	select {
	case s.logging <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.logging }()
		s.options.Logger.Warn(message, args...)
	}()
}
