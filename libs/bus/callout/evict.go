package callout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/logsample"
)

// DefaultEvery is the longest pause between two looks at the connections. Two looks fit into a minute,
// also when each takes as long as it may.
const DefaultEvery = 25 * time.Second

const (
	// listSubject is where all servers list their connections, and serverSubject begins what one server
	// is asked.
	listSubject, serverSubject = "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER."
	// listed is how many connections a server lists in one message.
	listed = 256
	// listPatience is how long the servers may take to begin their lists, and askPatience how long one
	// may take for anything else.
	listPatience, askPatience = 2 * time.Second, 2 * time.Second
	// maxServers bounds the answers to one request for lists.
	maxServers = 1 << 10
	// complainEvery is the interval at which the same problem is logged.
	complainEvery = 10 * time.Minute
)

// EvictConfig configures Evict.
type EvictConfig struct {
	// Conn is a connection as the system user of Keys; required. Evict waits while it is down.
	Conn *bus.Conn
	// Check returns why the client with an identity, as Grant.Identity named it, may not keep its
	// connection; nil if it may. It must return nil if it cannot tell. Required.
	Check func(ctx context.Context, identity string) error
	// Every is the longest pause between two looks at all connections; DefaultEvery if 0.
	Every time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// Evict ends the connections of clients that Check rejects, until ctx ends. It asks the servers who is
// connected, whichever apiserver let them in. A client that was let in without an identity in its name,
// such as an apiserver itself, is left alone.
func Evict(ctx context.Context, cfg EvictConfig) error {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &evictor{EvictConfig: cfg}
	for {
		// Apiservers that started together do not look together.
		if !backoff.Sleep(ctx, cfg.Every-rand.N(cfg.Every/4+1)) {
			return nil
		}
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			e.complain(ctx, err)
		}
	}
}

type evictor struct {
	EvictConfig
	complained time.Time
	evictions  logsample.Gate
}

// complain logs why connections cannot be looked at, but not at each look.
func (e *evictor) complain(ctx context.Context, err error) {
	if now := time.Now(); now.Sub(e.complained) >= complainEvery {
		e.complained = now
		e.Logger.WarnContext(ctx, "clients of NATS whose credential is revoked keep their connection until it ends by itself; the servers need the present nats-auth.conf",
			"err", err)
	}
}

// connections is what a server answers to a request for its connections.
type connections struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		Total       int `json:"total"`
		Connections []struct {
			ID   uint64 `json:"cid"`
			User string `json:"authorized_user"`
		} `json:"connections"`
	} `json:"data"`
	Error json.RawMessage `json:"error"`
}

// request is what a server is asked about its connections.
type request struct {
	Auth   bool `json:"auth"`
	Offset int  `json:"offset"`
	Limit  int  `json:"limit"`
}

// look looks at all connections of all servers once.
func (e *evictor) look(ctx context.Context) error {
	if err := e.Conn.Lost(); err != nil {
		return err
	}
	first, err := e.first(ctx)
	if err != nil {
		return err
	}
	if len(first) == 0 {
		return errors.New("no NATS server lists its connections")
	}
	var errs []error
	for _, page := range first {
		errs = append(errs, e.server(ctx, page))
	}
	return errors.Join(errs...)
}

// first returns the first page of each server that answers in time.
func (e *evictor) first(ctx context.Context) ([]connections, error) {
	inbox := e.Conn.NewInbox()
	pages := make(chan connections, maxServers)
	answers, err := e.Conn.Subscribe(ctx, inbox, func(m bus.Message) {
		page, err := parsePage(m)
		if err != nil {
			return
		}
		select {
		case pages <- page:
		default:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the connections of NATS: %w", err)
	}
	defer func() { <-answers.Done() }()
	defer answers.Unsubscribe()
	question, err := json.Marshal(request{Auth: true, Limit: listed})
	if err == nil {
		err = e.Conn.PublishRequest(ctx, listSubject, inbox, question)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the connections of NATS: %w", err)
	}
	// How many servers there are is not known.
	if !backoff.Sleep(ctx, listPatience) {
		return nil, ctx.Err()
	}
	var found []connections
	for {
		select {
		case page := <-pages:
			found = append(found, page)
		default:
			return found, nil
		}
	}
}

func parsePage(m bus.Message) (connections, error) {
	var page connections
	if err := json.Unmarshal(m.Data, &page); err != nil {
		return page, fmt.Errorf("reading a list of connections of NATS: %w", err)
	}
	if len(page.Error) > 0 || page.Server.ID == "" {
		return page, fmt.Errorf("a NATS server lists no connections: %s", page.Error)
	}
	return page, nil
}

// server looks at all connections of one server, of which page is the first part.
func (e *evictor) server(ctx context.Context, page connections) error {
	id := page.Server.ID
	for offset := 0; ; {
		for _, one := range page.Data.Connections {
			if err := e.connection(ctx, id, one.ID, one.User); err != nil {
				return err
			}
		}
		offset += listed
		if offset >= page.Data.Total || len(page.Data.Connections) == 0 {
			return nil
		}
		question, err := json.Marshal(request{Auth: true, Offset: offset, Limit: listed})
		if err != nil {
			return fmt.Errorf("listing the connections of the NATS server %s: %w", id, err)
		}
		answer, err := e.ask(ctx, id, "CONNZ", question)
		if err != nil {
			return err
		}
		if page, err = parsePage(answer); err != nil {
			return err
		}
	}
}

// connection ends a connection if its client may not keep it.
func (e *evictor) connection(ctx context.Context, server string, id uint64, shown string) error {
	user, identity := splitUser(shown)
	if identity == "" {
		return nil
	}
	why := e.Check(ctx, identity)
	if why == nil {
		return nil
	}
	if _, err := e.ask(ctx, server, "KICK", fmt.Appendf(nil, `{"cid":%d}`, id)); err != nil {
		return err
	}
	if held, open := e.evictions.Open(time.Now()); open {
		e.Logger.InfoContext(ctx, "ended the connection of a client of NATS", "user", user, "why", why, "notLogged", held)
	}
	return nil
}

func (e *evictor) ask(ctx context.Context, server, what string, question []byte) (bus.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return e.Conn.Request(ctx, serverSubject+server+"."+what, question)
}

// joinUser returns the name under which a server lists a client: the user for people, and the identity
// for Evict. Identities contain no space.
func joinUser(user, identity string) string { return user + " " + identity }

// splitUser reverses joinUser. The identity is empty if joinUser did not make the name.
func splitUser(shown string) (user, identity string) {
	at := strings.LastIndexByte(shown, ' ')
	if at < 0 {
		return shown, ""
	}
	return shown[:at], shown[at+1:]
}
