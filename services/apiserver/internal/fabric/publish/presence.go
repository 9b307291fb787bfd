package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
)

const (
	// answerPatience is how long a candidate may take to answer.
	answerPatience = time.Second
	// returnPatience is how long others may take to return to the bus after this process has; they
	// seem gone meanwhile. It is several times the apiservers' longest pause between two attempts.
	returnPatience = 3 * time.Second
)

// Peers is the bus on which publishers check each other's presence: *bus.Conn.
type Peers interface {
	Subscribe(ctx context.Context, subject string, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error)
	Publish(ctx context.Context, subject string, data []byte) error
	Request(ctx context.Context, subject string, data []byte) (bus.Message, error)
	Flush(ctx context.Context) error
	Connected() bool
	Reconnects() uint64
}

// presence reports which candidates of an election are on the bus. NATS notices a killed process at
// once, by its connection; etcd only when the lease expires. For NATS, a stalled process is
// present.
type presence struct {
	peers    Peers
	election string

	mu         sync.Mutex
	own        string // this process as a candidate
	reconnects uint64
	returned   time.Time
}

func newPresence(peers Peers, election string) *presence {
	return &presence{peers: peers, election: election, reconnects: peers.Reconnects()}
}

// Announce answers for a candidate.
func (p *presence) Announce(ctx context.Context, candidate string) (func(), error) {
	p.mu.Lock()
	p.own = subject.Lead(p.election, candidate)
	own := p.own
	p.mu.Unlock()
	// The subscription ends after ctx, together with the candidate's key.
	life := context.WithoutCancel(ctx)
	sub, err := p.peers.Subscribe(life, own, func(m bus.Message) {
		if subject.IsInbox(m.Reply) {
			_ = p.peers.Publish(life, m.Reply, []byte(candidate)) // On failure the asking process asks again.
		}
	})
	if err != nil {
		return nil, err
	}
	if p.peers.Connected() {
		bounded, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		// Without the server's confirmation the subscription takes effect a little later, or once
		// there is a server again.
		_ = p.peers.Flush(bounded)
	}
	return func() { sub.Unsubscribe(); <-sub.Done() }, nil
}

// Gone reports whether a candidate is not on the bus. It returns false unless this process itself
// can be found there and did not just reconnect.
func (p *presence) Gone(ctx context.Context, candidate string) bool {
	if !p.peers.Connected() || p.justReturned() {
		return false
	}
	if err := p.ask(ctx, subject.Lead(p.election, candidate)); !errors.Is(err, bus.ErrNoResponders) {
		return false
	}
	p.mu.Lock()
	own := p.own
	p.mu.Unlock()
	return p.ask(ctx, own) == nil && !p.justReturned()
}

func (p *presence) ask(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if _, err := p.peers.Request(ctx, subject, nil); err != nil {
		return fmt.Errorf("asking whether a candidate is there: %w", err)
	}
	return nil
}

func (p *presence) justReturned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if n := p.peers.Reconnects(); n != p.reconnects {
		p.reconnects, p.returned = n, now
	}
	return !p.returned.IsZero() && now.Sub(p.returned) < returnPatience
}
