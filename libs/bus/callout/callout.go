// Package callout implements NATS auth callout: it answers a NATS server's question which user a
// client is and what it may do. The caller of the package decides; the package speaks with NATS and
// tells clients their identity.
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
	"github.com/garboard/garboard/libs/bus/subject"
)

const (
	// authSubject is where a nats-server sends its questions.
	authSubject = "$SYS.REQ.USER.AUTH"
	// queue is the queue group, of which one member answers.
	queue = "apiservers"
	// account is the account of clients, the only one of a nats-server without accounts.
	account = "$G"
	// concurrent is how many decisions run at once; further questions wait.
	concurrent = 64
	// patience is how long a decision may take; a nats-server waits no longer.
	patience = 2 * time.Second
	// stale is how long a question may wait for a worker; after that too little time is left for a
	// decision. waiting is how many questions may wait.
	stale   = patience / 2
	waiting = 8192
	// remembered is how long after its admission a client may ask for its identity.
	remembered = time.Minute
)

// Credentials are what a client presented to a nats-server.
type Credentials struct {
	// Inbox is the inbox part that the client has proved to be its own; empty if it has none.
	Inbox string
	// Token is a bearer token; empty for none.
	Token string
	// Certificates is the chain of the client certificate, leaf first, or nil. The client has the
	// leaf's key. The caller must verify the chain.
	Certificates []*x509.Certificate
	// Name and Host are the connecting program and its machine, for logs: the client chooses the
	// name.
	Name, Host string
}

// Grant is what a client may do, and until when.
type Grant struct {
	// Identity is returned to the client, which puts it into the subjects of its requests:
	// subject.Client.Identity.
	Identity string
	// User is shown in the server's lists of connections, followed by Identity.
	User string
	subject.Rights
	// Expires is when the connection ends; the client then reconnects.
	Expires time.Time
}

// Config configures Serve.
type Config struct {
	// Conn is a connection as the user of Keys; required.
	Conn *bus.Conn
	// Keys sign the decisions; required.
	Keys *Keys
	// Decide returns what a client may do. An error refuses the client. Serve logs errors, at most
	// ten a minute, and does not reveal them to the client. Required.
	Decide func(ctx context.Context, credentials Credentials) (Grant, error)
	// Serving is called once NATS knows that its questions are answered here; may be nil.
	Serving func()
	// Logger may be nil.
	Logger *slog.Logger
}

// Serve answers questions until ctx ends and all work it started has ended.
func Serve(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &service{Config: cfg, known: map[string]known{}}
	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	identities, err := cfg.Conn.Subscribe(ctx, subject.Who("*"), func(m bus.Message) { s.identify(ctx, m) })
	if err != nil {
		return fmt.Errorf("subscribing to clients' requests for their identity: %w", err)
	}
	defer func() { <-identities.Done() }()
	defer identities.Unsubscribe()
	questions := make(chan *question, waiting)
	for range concurrent {
		s.work.Go(func() { s.decideOn(ctx, questions) })
	}
	asked, err := cfg.Conn.QueueSubscribe(ctx, authSubject, queue, func(m bus.Message) {
		select {
		case questions <- &question{m, time.Now()}:
		default: // NATS asks again when the client reconnects.
		}
	})
	if err != nil {
		return fmt.Errorf("subscribing to NATS's questions about its clients: %w", err)
	}
	defer func() { <-asked.Done() }()
	defer asked.Unsubscribe()
	if cfg.Serving != nil {
		if err := cfg.Conn.Flush(ctx); err != nil && ctx.Err() == nil {
			cfg.Logger.Warn("NATS may not know yet that its questions are answered here", "err", err)
		}
		cfg.Serving()
	}
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

// question is a question of NATS and the time of its arrival. Its age is not computed from its
// content: the clocks of two machines may differ by more than NATS waits.
type question struct {
	bus.Message
	came time.Time
}

// decideOn answers questions until ctx ends. It drops a question that NATS would give up before the
// answer arrives. After a restart of NATS all clients come at once, and working off old questions
// would delay the new ones.
func (s *service) decideOn(ctx context.Context, questions <-chan *question) {
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

// identify tells a client its identity, if this apiserver admitted it.
func (s *service) identify(ctx context.Context, m bus.Message) {
	inbox := strings.TrimPrefix(m.Subject, subject.Who(""))
	if !(subject.Client{Inbox: inbox}).Owns(m.Reply) {
		return
	}
	s.mu.Lock()
	found, ok := s.known[inbox]
	s.mu.Unlock()
	if !ok {
		return // Another apiserver admitted it.
	}
	if err := s.Conn.Publish(ctx, m.Reply, []byte(found.identity)); err != nil {
		s.Logger.DebugContext(ctx, "could not tell a client its identity", "err", err)
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
		s.Logger.WarnContext(ctx, "could not decode a question of NATS about a client", "err", err)
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
			return // NATS will ask another apiserver, or this came too late.
		}
		// Anyone who reaches NATS can cause this at any rate.
		if held, open := s.refused.Open(time.Now()); open {
			s.Logger.InfoContext(ctx, "refused a client of NATS", "client", credentials.Name, "host", credentials.Host, "err", err, "notLogged", held)
		}
		response.Error = "Unauthorized"
	}
	text, err := response.Encode(s.Keys.issuer)
	if err == nil {
		err = s.Conn.Publish(ctx, m.Reply, []byte(text))
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "could not answer NATS about a client", "client", credentials.Name, "host", credentials.Host, "err", err)
	}
}

// read extracts the client's credentials from a nats-server's question.
func read(request *jwt.AuthorizationRequestClaims) (Credentials, error) {
	shown := Credentials{
		Token: request.ConnectOptions.Token, Name: request.ConnectOptions.Name, Host: request.ClientInformation.Host,
	}
	if kind := request.ClientInformation.Kind; kind != "Client" {
		return shown, fmt.Errorf("it is a %s, and only clients are admitted", kind)
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

// decide asks Decide what a client may do, and signs the result.
func (s *service) decide(ctx context.Context, key string, shown Credentials) (string, error) {
	if shown.Inbox == "" {
		return "", errors.New("it presents no secret, so it has no inbox")
	}
	grant, err := s.Decide(ctx, shown)
	if err != nil {
		return "", err
	}
	// NATS treats an empty list as permission for everything.
	if len(grant.Publish) == 0 || len(grant.Subscribe) == 0 || grant.Expires.IsZero() {
		return "", errors.New("it was granted nothing, or forever")
	}
	user := jwt.NewUserClaims(key)
	user.Name, user.Audience, user.Expires = joinUser(grant.User, grant.Identity), account, grant.Expires.Unix()
	user.Pub.Allow.Add(grant.Publish...)
	user.Sub.Allow.Add(grant.Subscribe...)
	text, err := user.Encode(s.Keys.issuer)
	if err != nil {
		return "", fmt.Errorf("signing the rights of a client: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[shown.Inbox] = known{identity: grant.Identity, at: time.Now()}
	return text, nil
}
