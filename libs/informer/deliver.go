package informer

// Deliver makes all pending calls of a handler in the caller's goroutine, if the informer was never
// run. The content of such an informer changes as soon as its Sink is called, and its handlers are
// notified when the caller decides. It is for simulations of followers.
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
