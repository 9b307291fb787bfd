package bus

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForbidden means that the server does not let this client publish at a subject.
var ErrForbidden = errors.New("the server refuses what was sent")

// refusal is interest in the refusals of what is published at a subject.
type refusal struct {
	subject  string
	callback func(error)
}

// OnForbidden calls callback when the server refuses what this connection publishes at a subject,
// with an error that is ErrForbidden. The server names only the subject, so that any message there
// may be meant. The callback must not block. cancel removes it.
func (c *Conn) OnForbidden(subject string, callback func(err error)) (cancel func()) {
	r := &refusal{subject, callback}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals[r] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.refusals, r)
	}
}

// forbidden calls the callbacks of OnForbidden that a server error is for.
func (c *Conn) forbidden(err error) {
	said := err.Error()
	c.mu.Lock()
	var meant []*refusal
	for r := range c.refusals {
		if strings.Contains(said, fmt.Sprintf("Publish to %q", r.subject)) {
			meant = append(meant, r)
		}
	}
	c.mu.Unlock()
	for _, r := range meant {
		r.callback(fmt.Errorf("%w: %w", ErrForbidden, err))
	}
}
