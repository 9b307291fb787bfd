package respond

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Driven answers asks without goroutines and a clock: its owner says how long an ask waits. All
// that it decides is decided by the code of the responders that run. It is for simulations.
type Driven struct{ responder *Responder }

// NewDriven makes a responder that takes the time from now. Of cfg.Bus only MaxPayload is used;
// Authorize is not.
func NewDriven(cfg Config, now func() time.Time) *Driven {
	r := New(cfg)
	r.shared.now = now
	return &Driven{responder: r}
}

// Inquiry is an ask that waits until the feed is far enough.
type Inquiry struct {
	responder *Responder
	question  question
}

// Ask takes an ask. Without an Inquiry it is answered already, by these messages, or not at all.
func (d *Driven) Ask(ctx context.Context, kind *scheme.Kind, ask *watchv1.Ask) (*Inquiry, [][]byte) {
	q, said := d.responder.question(ctx, kind, ask)
	switch {
	case said != nil:
		return nil, said.tagged()
	case q.feed == nil:
		return nil, nil
	}
	return &Inquiry{responder: d.responder, question: q}, nil
}

// Ready says that the feed is far enough.
func (i *Inquiry) Ready() bool { return i.question.feed.Through() >= i.question.minimum }

// Answer gives the messages of the answer, which is "not yet" if the feed is not Ready.
func (i *Inquiry) Answer(ctx context.Context) [][]byte {
	return i.responder.conclude(ctx, i.question).tagged()
}
