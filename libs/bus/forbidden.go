package bus

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForbidden means that the server does not let this client publish at a subject.
var ErrForbidden = errors.New("the server refuses what was sent")

// opens registers a stream that no responder has accepted yet, until the returned function is
// called.
func (c *Conn) opens(r *streamReader) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opening == nil {
		c.opening = map[*streamReader]bool{}
	}
	c.opening[r] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.opening, r)
	}
}

// forbidden ends the streams whose opening the server has refused, because no responder will ever
// see them. The server names only the subject.
func (c *Conn) forbidden(err error) {
	said := err.Error()
	c.mu.Lock()
	var refused []*streamReader
	for r := range c.opening {
		if strings.Contains(said, fmt.Sprintf("Publish to %q", r.subject)) {
			refused = append(refused, r)
		}
	}
	c.mu.Unlock()
	for _, r := range refused {
		r.fail(fmt.Errorf("%w: %w", ErrForbidden, err))
	}
}
