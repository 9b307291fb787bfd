package informer

// Deliver makes all calls that a handler is owed, in the caller's goroutine, if the informer
// was never run. Its content is then what its Sink was told, at once, and its handlers are
// told when the caller says. It is for simulations of followers.
func Deliver(registration Registration) {
	if l, ok := registration.(interface{ deliverAll() }); ok {
		l.deliverAll()
	}
}

func (l *listener[T]) deliverAll() {
	for {
		l.mu.Lock()
		if l.started || l.removed || l.buffer.Len() == 0 {
			l.mu.Unlock()
			return
		}
		n := l.buffer.Pop()
		l.mu.Unlock()
		l.deliver(n)
	}
}
