package respond

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Stepper answers asks without goroutines or a clock: its owner decides how long an ask waits.
// Everything else is decided by the code of the real responders. It is for simulations.
type Stepper struct{ responder *Responder }

// NewStepper returns a responder that takes the time from now. It uses only MaxPayload of cfg.Bus,
// and not Authorize.
func NewStepper(cfg Config, now func() time.Time) *Stepper {
	r := New(cfg)
	r.cache.now = now
	return &Stepper{responder: r}
}

// Inquiry is an ask that waits until the feed is far enough.
type Inquiry struct {
	responder *Responder
	question  question
}

// Ask accepts an ask. If Inquiry is nil, the messages are the complete answer; there may be none.
func (s *Stepper) Ask(ctx context.Context, kind *scheme.Kind, ask *watchv1.Ask) (*Inquiry, [][]byte) {
	q, said := s.responder.question(ctx, kind, ask)
	switch {
	case said != nil:
		return nil, said.tagged()
	case q.feed == nil:
		return nil, nil
	}
	return &Inquiry{responder: s.responder, question: q}, nil
}

// Ready reports whether the feed is far enough.
func (i *Inquiry) Ready() bool { return i.question.feed.Through() >= i.question.minimum }

// Answer returns the messages of the answer, which is "not yet" if the feed is not Ready.
func (i *Inquiry) Answer(ctx context.Context) [][]byte {
	return i.responder.conclude(ctx, i.question).tagged()
}
