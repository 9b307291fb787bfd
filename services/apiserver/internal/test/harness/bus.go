package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// OnBus connects to NATS as a service.
func (s *Server) OnBus(service string) *bus.Conn {
	s.T.Helper()
	return s.Bus.ConnectAs(client.BusConfig(s.Service(service), bus.Config{Name: service}))
}

// ServeNode serves the requests to a node until the test ends, in place of the node's agent.
func (s *Server) ServeNode(node string, handler http.HandlerFunc) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	serving, ended := make(chan struct{}), make(chan error, 1)
	server := serve.New(serve.Config{
		Conn: s.OnBus("system:node:" + node), Node: node, Handler: handler, Drain: time.Millisecond, Serving: func() { close(serving) },
	})
	go func() { ended <- server.Run(ctx) }()
	s.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.T.Errorf("serving node %s: %v", node, err)
		}
	})
	select {
	case <-serving:
	case <-time.After(Patience):
		s.T.Fatalf("node %s does not serve", node)
	}
}

// Trusted connects to NATS with the apiservers' own key.
func (s *Server) Trusted() *bus.Conn {
	s.T.Helper()
	return s.Bus.ConnectAs(s.TrustedConfig())
}

// TrustedConfig returns the configuration of an apiserver's own connection.
func (s *Server) TrustedConfig() bus.Config {
	s.T.Helper()
	seed, err := os.ReadFile(filepath.Join(s.CertDir, "nats-apiserver.seed"))
	if err != nil {
		s.T.Fatal(err)
	}
	return bus.Config{Name: "the test", Seed: []byte(strings.TrimSpace(string(seed)))}
}

// Asked asks over the bus and returns the outcome, or the unspecified one if no answer came: an ask
// is lost if its connection ends meanwhile. It repeats the ask if no apiserver responds yet, since
// a new one admits clients before it answers asks, and if an overloaded one says "not yet".
func Asked(t testing.TB, conn *bus.Conn, ask *watchv1.Ask) (watchv1.Outcome, string) {
	t.Helper()
	chunk := &watchv1.Chunk{}
	err := request(t, conn, conn.Client().Ask(ask.GetGroup(), ask.GetResource()), ask, chunk, func() bool {
		return chunk.GetOutcome() == watchv1.Outcome_OUTCOME_NOT_YET
	})
	if err != nil {
		return watchv1.Outcome_OUTCOME_UNSPECIFIED, err.Error()
	}
	return chunk.GetOutcome(), chunk.GetReason()
}

// AskedHistory is Asked for a page of the log.
func AskedHistory(t testing.TB, conn *bus.Conn, ask *watchv1.HistoryAsk) (watchv1.HistoryOutcome, string) {
	t.Helper()
	page := &watchv1.HistoryPage{}
	err := request(t, conn, conn.Client().History(ask.GetGroup(), ask.GetResource()), ask, page, func() bool {
		return page.GetOutcome() == watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET
	})
	if err != nil {
		return watchv1.HistoryOutcome_HISTORY_OUTCOME_UNSPECIFIED, err.Error()
	}
	return page.GetOutcome(), page.GetReason()
}

// request sends a message and decodes the first reply into answer. It repeats the message, for as
// long as tests are patient, if no process responds or again reports that the answer is to ask again.
func request(t testing.TB, conn *bus.Conn, subject string, message, answer proto.Message, again func() bool) error {
	t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	inbox := conn.NewInbox()
	got := make(chan bus.Message, 100)
	sub, err := conn.Subscribe(t.Context(), inbox, func(m bus.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(Patience); ; <-pause.C {
		if err := conn.PublishRequest(t.Context(), subject, inbox, data); err != nil {
			return err
		}
		select {
		case m := <-got:
			if err := proto.Unmarshal(m.Data, answer); err != nil {
				t.Fatal(err)
			}
			if !m.NoResponders() && !again() || time.Now().After(deadline) {
				return nil
			}
		case <-time.After(Patience / 3):
			return errors.New("no answer")
		}
	}
}

// Published waits until a resource is published: no message contains what was written before that.
func Published(t testing.TB, conn *bus.Conn, group, resource string) {
	t.Helper()
	told := make(chan struct{}, 1)
	sub, err := conn.Subscribe(t.Context(), subject.Progress(group, resource), func(bus.Message) {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	select {
	case <-told:
	case <-time.After(Patience):
		t.Fatalf("no progress of %s is published", resource)
	}
}

// Denied reports whether NATS refuses a subscription.
func Denied(t testing.TB, conn *bus.Conn, subject string) bool {
	t.Helper()
	subscribe := func(subject string) (<-chan error, func()) {
		refused := make(chan error, 1)
		sub, err := conn.Subscribe(t.Context(), subject, func(bus.Message) {}, bus.OnLoss(func(err error) {
			select {
			case refused <- err:
			default:
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return refused, sub.Unsubscribe
	}
	refused, end := subscribe(subject)
	defer end()
	// Refusals arrive in order, and no client may subscribe to this subject.
	surely, over := subscribe("gb.denied." + rand.Text())
	defer over()
	select {
	case err := <-surely:
		if !errors.Is(err, bus.ErrDenied) {
			t.Fatal(err)
		}
	case <-time.After(Patience):
		t.Fatal("the reference subscription was not refused")
	}
	select {
	case err := <-refused:
		return errors.Is(err, bus.ErrDenied)
	default:
		return false
	}
}
