package lock

import "github.com/anylock/lock/backend"

// warnNotReady logs, when a wait at the store begins, that the store cannot grant yet.
func (l *Locker) warnNotReady(key string) {
	if err := l.notReady(); err != nil {
		l.defaults.logger.Warn("acquire: the store cannot grant yet", "key", key, "backend", l.name, "error", err)
	}
}

// notReady returns an error if the store cannot grant yet, nil if it can or does not know.
func (l *Locker) notReady() error {
	if err := l.checkOpened(); err != nil {
		return err
	}
	if r, ok := l.backend.(backend.Readiness); ok {
		return r.NotReady()
	}
	return nil
}
