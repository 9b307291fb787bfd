// Package callout answers NATS's question who a client is and what he may do: its auth callout.
// The decision is the caller's; this package speaks with NATS, and tells clients who they are.
package callout

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/logsample"
)

const (
	// subject is where a nats-server asks.
	subject = "$SYS.REQ.USER.AUTH"
	// queue is the group of which one member answers.
	queue = "apiservers"
	// account is where clients are, the only one of a nats-server without accounts.
	account = "$G"
	// concurrent is how many are decided on at a time; the others wait.
	concurrent = 64
	// patience is how long a decision may take; a nats-server does not wait longer.
	patience = 2 * time.Second
	// stale is how long a question may wait for one of those; less than that is too little for a
	// decision. waiting is how many may wait.
	stale   = patience / 2
	waiting = 8192
	// remembered is for how long a client may ask who he is after he was let in.
	remembered = time.Minute
)

// Credentials are what a client showed to a nats-server.
type Credentials struct {
	// Inbox is the part of the inboxes that the client has proved to be his own; empty if he
	// has none.
	Inbox string
	// Token is a bearer token; empty for none.
	Token string
	// Certificates are the chain of the client certificate, whose key he has, the client's
	// own first; none if he has none. They are to be verified.
	Certificates []*x509.Certificate
	// Name and Host say which program of which machine connects, for logs: the name is what
	// the client says.
	Name, Host string
}

// Grant is what a client may do, until when.
type Grant struct {
	// Identity is what the client is told of himself, to be put into the subjects of what he
	// asks: bus.Asker.Identity.
	Identity string
	// User is shown in the lists of the server's connections.
	User string
	bus.Rights
	// Expires is when the connection ends; the client then comes again.
	Expires time.Time
}

// Config says who decides.
type Config struct {
	// Conn is a connection as the user of Keys; required.
	Conn *bus.Conn
	// Keys sign; required.
	Keys *Keys
	// Decide says what a client may do. An error refuses him; it is logged here, ten times a
	// minute at most, and not shown to him. Required.
	Decide func(ctx context.Context, credentials Credentials) (Grant, error)
	// Logger may be nil.
	Logger *slog.Logger
}

// Serve answers until ctx ends and all that was begun has ended.
func Serve(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &service{Config: cfg, known: map[string]known{}}
	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	who, err := cfg.Conn.Subscribe(ctx, bus.WhoSubject("*"), func(m bus.Message) { s.who(ctx, m) })
	if err != nil {
		return fmt.Errorf("listening for clients that ask who they are: %w", err)
	}
	defer func() { <-who.Done() }()
	defer who.Unsubscribe()
	questions := make(chan question, waiting)
	for range concurrent {
		s.work.Go(func() { s.decideOn(ctx, questions) })
	}
	asked, err := cfg.Conn.QueueSubscribe(ctx, subject, queue, func(m bus.Message) {
		select {
		case questions <- question{m, time.Now()}:
		default: // NATS asks again when the client comes again.
		}
	})
	if err != nil {
		return fmt.Errorf("listening for NATS's questions about its clients: %w", err)
	}
	defer func() { <-asked.Done() }()
	defer asked.Unsubscribe()
	ticker := time.NewTicker(remembered)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			s.sweep(now)
		}
	}
}

// question is one of NATS, and when it came. Its age is not taken from what it says: clocks of two
// machines may differ by more than NATS waits.
type question struct {
	bus.Message
	came time.Time
}

// decideOn answers questions until ctx ends. One that NATS will have given up before it is answered
// is dropped: after a restart of NATS all clients come at once, and who works off old questions
// keeps the new ones waiting.
func (s *service) decideOn(ctx context.Context, questions <-chan question) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-questions:
			if time.Since(q.came) > stale {
				continue
			}
			bounded, cancel := context.WithDeadline(ctx, q.came.Add(patience))
			s.answer(bounded, q.Message)
			cancel()
		}
	}
}

type service struct {
	Config
	work    sync.WaitGroup
	refused logsample.Gate

	mu    sync.Mutex
	known map[string]known // by inbox
}

type known struct {
	identity string
	at       time.Time
}

// who tells a client who he is, if this apiserver has let him in.
func (s *service) who(ctx context.Context, m bus.Message) {
	inbox := strings.TrimPrefix(m.Subject, bus.WhoSubject(""))
	if !(bus.Asker{Inbox: inbox}).Owns(m.Reply) {
		return
	}
	s.mu.Lock()
	found, ok := s.known[inbox]
	s.mu.Unlock()
	if !ok {
		return // Another apiserver has.
	}
	if err := s.Conn.Publish(ctx, m.Reply, []byte(found.identity)); err != nil {
		s.Logger.DebugContext(ctx, "a client cannot be told who he is", "err", err)
	}
}

func (s *service) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for inbox, k := range s.known {
		if now.Sub(k.at) > remembered {
			delete(s.known, inbox)
		}
	}
}

// answer answers a nats-server's question about a client.
func (s *service) answer(ctx context.Context, m bus.Message) {
	request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		s.Logger.WarnContext(ctx, "a question of NATS about a client cannot be read", "err", err)
		return
	}
	response := jwt.NewAuthorizationResponseClaims(request.UserNkey)
	response.Audience = request.Server.ID
	credentials, err := read(request)
	if err == nil {
		response.Jwt, err = s.decide(ctx, request.UserNkey, credentials)
	}
	if err != nil {
		if ctx.Err() != nil {
			return // Another apiserver will be asked, or this came too late.
		}
		// Whoever reaches NATS can cause this as often as he likes.
		if held, open := s.refused.Open(time.Now()); open {
			s.Logger.InfoContext(ctx, "A client is not let in at NATS", "client", credentials.Name, "host", credentials.Host, "err", err, "notLogged", held)
		}
		response.Error = "Unauthorized"
	}
	text, err := response.Encode(s.Keys.issuer)
	if err == nil {
		err = s.Conn.Publish(ctx, m.Reply, []byte(text))
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "NATS cannot be told about a client", "client", credentials.Name, "host", credentials.Host, "err", err)
	}
}

// read takes what a client showed from a nats-server's question.
func read(request *jwt.AuthorizationRequestClaims) (Credentials, error) {
	shown := Credentials{
		Token: request.ConnectOptions.Token, Name: request.ConnectOptions.Name, Host: request.ClientInformation.Host,
	}
	if kind := request.ClientInformation.Kind; kind != "Client" {
		return shown, fmt.Errorf("it is a %s, and only clients are let in", kind)
	}
	if secret := request.ConnectOptions.Password; secret != "" {
		shown.Inbox = bus.InboxOf(secret)
	}
	if request.TLS == nil {
		return shown, nil
	}
	chain := request.TLS.Certs
	if len(request.TLS.VerifiedChains) > 0 {
		chain = request.TLS.VerifiedChains[0]
	}
	for _, text := range chain {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return shown, errors.New("its certificate is not PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return shown, fmt.Errorf("its certificate cannot be read: %w", err)
		}
		shown.Certificates = append(shown.Certificates, cert)
	}
	return shown, nil
}

// decide has it decided what a client may do, and signs that.
func (s *service) decide(ctx context.Context, key string, shown Credentials) (string, error) {
	if shown.Inbox == "" {
		return "", errors.New("it shows no secret, by which it could have an inbox")
	}
	grant, err := s.Decide(ctx, shown)
	if err != nil {
		return "", err
	}
	// An empty list would allow everything.
	if len(grant.Publish) == 0 || len(grant.Subscribe) == 0 || grant.Expires.IsZero() {
		return "", errors.New("it was granted nothing, or for ever")
	}
	user := jwt.NewUserClaims(key)
	user.Name, user.Audience, user.Expires = grant.User, account, grant.Expires.Unix()
	user.Pub.Allow.Add(grant.Publish...)
	user.Sub.Allow.Add(grant.Subscribe...)
	text, err := user.Encode(s.Keys.issuer)
	if err != nil {
		return "", fmt.Errorf("signing what it may do: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[shown.Inbox] = known{identity: grant.Identity, at: time.Now()}
	return text, nil
}
