package callout_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
)

const deadline = time.Minute

// plane is a NATS server whose clients are admitted by a test's rule.
type plane struct {
	t      *testing.T
	server *bustest.Server
	keys   *callout.Keys
	// life is how long a connection lasts, in nanoseconds.
	life atomic.Int64
	lets atomic.Int64
	// revoked is a token that is no longer accepted.
	revoked atomic.Pointer[string]
}

func start(t *testing.T) *plane {
	t.Helper()
	return startWith(t, embedded.Config{})
}

// startWith is start with a changed server.
func startWith(t *testing.T, cfg embedded.Config) *plane {
	t.Helper()
	p := &plane{t: t}
	p.keys, cfg.Auth = bustest.NewKeys(t)
	p.server = bustest.NewServerWith(t, cfg)
	p.life.Store(int64(time.Hour))
	return p
}

// serve decides by the token, which is the user's name, until the returned function is called.
func (p *plane) serve() (stop func()) {
	p.t.Helper()
	conn := p.server.ConnectAs(bus.Config{Name: "apiserver", Seed: p.keys.UserSeed()})
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := callout.Serve(ctx, callout.Config{Conn: conn, Keys: p.keys, Decide: func(_ context.Context, shown callout.Credentials) (callout.Grant, error) {
			if shown.Token == "" || strings.HasPrefix(shown.Token, "bad") {
				return callout.Grant{}, errors.New("unknown token")
			}
			if revoked := p.revoked.Load(); revoked != nil && *revoked == shown.Token {
				return callout.Grant{}, errors.New("revoked token")
			}
			p.lets.Add(1)
			rights := subject.RightsOf(subject.Client{Inbox: shown.Inbox, Identity: shown.Token})
			rights.Subscribe = append(rights.Subscribe, "gb.watch.core."+shown.Token+".>")
			if node, ok := strings.CutPrefix(shown.Token, "node-"); ok {
				more := subject.RightsOfNode(node)
				rights.Publish, rights.Subscribe = append(rights.Publish, more.Publish...), append(rights.Subscribe, more.Subscribe...)
			}
			return callout.Grant{
				Identity: shown.Token, User: shown.Token, Rights: rights, Expires: time.Now().Add(time.Duration(p.life.Load())),
			}, nil
		}})
		if err != nil {
			p.t.Errorf("serving: %v", err)
		}
	})
	if err := conn.Flush(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
		conn.Close()
	})
}

func TestAClientLearnsWhoItIs(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	c := p.server.ConnectAs(bus.Config{Name: "a", Token: "pods"})
	if who := c.Client(); who.Identity != "pods" || !who.Owns(c.NewInbox()) {
		t.Errorf("got identity %+v", who)
	}
	api := p.server.ConnectAs(bus.Config{Name: "apiserver", Seed: p.keys.UserSeed()})
	got := make(chan bus.Message, 10)
	if _, err := c.Subscribe(t.Context(), "gb.watch.core.pods.>", func(m bus.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := api.Publish(t.Context(), "gb.watch.core.pods.~.x.a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if m := <-got; string(m.Data) != "1" {
		t.Errorf("got %q", m.Data)
	}
}

// TestDialWaitsForTheIdentity checks that what starts right after Dial finds the connection up, unless the server takes
// longer than Dial waits.
func TestDialWaitsForTheIdentity(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	const waits = time.Second
	connected := 0
	for range 20 {
		began := time.Now()
		c, err := bus.Dial(bus.Config{URLs: p.server.Config().URLs, Name: "a", Token: "pods"})
		if err != nil {
			t.Fatal(err)
		}
		switch took := time.Since(began); {
		case c.Connected():
			connected++
		case took < waits:
			t.Errorf("Dial returned after %v, before the server identified the client", took)
		}
		c.Close()
	}
	if connected == 0 {
		t.Error("the server identified no client in time")
	}
}

// TestRefused checks that a client without a valid credential is refused, whatever name it gives.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	stranger, err := callout.NewUser()
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]bus.Config{
		"nobody":              {},
		"a bad token":         {Token: "bad"},
		"an unknown key":      {Seed: stranger},
		"the key as a name":   {User: p.keys.User(), Password: "x"},
		"the issuer's public": {User: p.keys.Issuer()},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.URLs, cfg.Name = p.server.Config().URLs, name
			// It retries until the deadline; a busy server may not have refused it by then.
			for patience := time.Second; ; patience *= 2 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				c, err := bus.Connect(ctx, cfg)
				cancel()
				if err == nil {
					c.Close()
					t.Fatal("it was admitted")
				}
				if strings.Contains(err.Error(), "Authorization Violation") {
					break
				}
				if patience > deadline {
					t.Fatalf("refused with %v", err)
				}
			}
		})
	}
}

// TestRefusalsDoNotFillTheLog checks that repeated refusals are rate-limited in the log.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	p := start(t)
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	conn := p.server.ConnectAs(bus.Config{Name: "apiserver", Seed: p.keys.UserSeed()})
	var refused atomic.Int64
	enough := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		err := callout.Serve(ctx, callout.Config{
			Conn: conn, Keys: p.keys, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Decide: func(context.Context, callout.Credentials) (callout.Grant, error) {
				if refused.Add(1) == 40 {
					close(enough)
				}
				return callout.Grant{}, errors.New("unknown token")
			},
		})
		if err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	for range 10 {
		c, err := bus.Dial(bus.Config{URLs: p.server.Config().URLs, Name: "stranger", Token: "bad", MaxReconnectDelay: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	select {
	case <-enough:
	case <-time.After(deadline):
		t.Errorf("only %d refusals", refused.Load())
	}
	cancel()
	running.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := strings.Count(log.text.String(), "refused a client"); n == 0 || n > 20 {
		t.Errorf("%d lines for %d refusals", n, refused.Load())
	}
}

// TestWithoutApiservers checks that clients wait and report it while no apiserver decides, and are
// admitted when one does, as after an apiserver restart.
func TestWithoutApiservers(t *testing.T) {
	t.Parallel()
	p := start(t)
	var log lines
	// Each attempt without an apiserver takes seconds.
	ctx, cancel := context.WithTimeout(t.Context(), 5*deadline)
	defer cancel()
	connected := make(chan error, 1)
	cfg := bus.Config{URLs: p.server.Config().URLs, Name: "a", Token: "pods", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	go func() {
		c, err := bus.Connect(ctx, cfg)
		if err == nil {
			defer c.Close()
		}
		connected <- err
	}()
	log.wait(t, "NATS does not let this client in: no apiserver answers there")
	p.serve()()
	stop := p.serve()
	defer stop()
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}

// TestRenewal checks that a connection ends when its grant expires and reconnects by itself, unless
// the client has lost its rights.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	p.life.Store(int64(2 * time.Second))
	c, err := bus.Dial(bus.Config{URLs: p.server.Config().URLs, Name: "a", Token: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	again := make(chan struct{}, 10)
	c.OnReconnect(func() { again <- struct{}{} })
	inbox := c.Client().Inbox
	for range 3 {
		select {
		case <-again:
		case <-time.After(deadline):
			t.Fatal("it did not reconnect")
		}
		if who := c.Client(); who.Identity != "pods" || who.Inbox != inbox {
			t.Errorf("got identity %+v", who)
		}
	}
	if p.lets.Load() < 3 {
		t.Errorf("admitted %d times", p.lets.Load())
	}
}

// TestTokenFile checks that a token replaced in its file is presented at the next connect.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	p.life.Store(int64(2 * time.Second))
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pods")
	c := p.server.ConnectAs(bus.Config{Name: "a", TokenFile: path})
	again := make(chan struct{}, 10)
	c.OnReconnect(func() { again <- struct{}{} })
	if who := c.Client(); who.Identity != "pods" {
		t.Errorf("got identity %+v", who)
	}
	write("nodes")
	for end := time.After(deadline); c.Client().Identity != "nodes"; {
		select {
		case <-again:
		case <-end:
			t.Fatal("the new token is not presented")
		}
	}
}

// TestDenied checks that a client is notified of forbidden operations.
func TestDenied(t *testing.T) {
	p := start(t)
	defer p.serve()()
	c := p.server.ConnectAs(bus.Config{Name: "a", Token: "pods"})
	refused := make(chan error, 1)
	sub, err := c.SubscribeAll(t.Context(), []string{"gb.watch.core.pods.>", "gb.watch.core.secrets.>"}, func(bus.Message) {}, bus.OnLoss(func(err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, bus.ErrDenied) || !sub.Denied() {
			t.Errorf("got %v", err)
		}
	case <-time.After(deadline):
		t.Fatal("no notification")
	}
}

// TestForbiddenNode checks that a client that may not call a node learns it at once, without waiting for a
// timeout.
func TestForbiddenNode(t *testing.T) {
	p := start(t)
	defer p.serve()()
	c := p.server.ConnectAs(bus.Config{Name: "a", Token: "pods"})
	node, err := bushttp.New(t.Context(), bushttp.Config{Conn: c, Node: "n.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := node.RoundTrip(request); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("got %v, %v", response, err)
	}
}

// TestManyConnects admits many clients at once, as after a restart of NATS.
func TestManyConnects(t *testing.T) {
	// A client that a slow machine admits late must not be given up meanwhile.
	p := startWith(t, embedded.Config{AuthTimeout: deadline})
	defer p.serve()()
	const clients = 40
	began := time.Now()
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*deadline)
			defer cancel()
			c, err := bus.Connect(ctx, bus.Config{URLs: p.server.Config().URLs, Name: "many", Token: "pods"})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	work.Wait()
	t.Logf("%d clients connected in %v", clients, time.Since(began))
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); time.Now().Before(end); <-tick.C {
		l.mu.Lock()
		found := strings.Contains(l.text.String(), want)
		l.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("the log lacks %q: %s", want, l.text.String())
}

// TestOldQuestionsAreDropped checks that, while decisions are slow, questions that NATS has given
// up are not decided.
func TestOldQuestionsAreDropped(t *testing.T) {
	server := bustest.NewServer(t)
	keys, _ := bustest.NewKeys(t)
	var decided, old, fresh atomic.Int64
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	conn := server.Connect()
	running.Go(func() {
		if err := callout.Serve(ctx, callout.Config{Conn: conn, Keys: keys, Decide: func(_ context.Context, shown callout.Credentials) (callout.Grant, error) {
			decided.Add(1)
			switch shown.Name {
			case "old":
				old.Add(1)
			case "new":
				fresh.Add(1)
			}
			<-release
			return callout.Grant{}, errors.New("nobody")
		}}); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	ask := func(name string) {
		t.Helper()
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := user.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		request := jwt.NewAuthorizationRequestClaims("x")
		request.UserNkey, request.ClientInformation.Kind, request.ConnectOptions.Password = public, "Client", "secret"
		request.ConnectOptions.Name = name
		signer, err := nkeys.CreateServer()
		if err != nil {
			t.Fatal(err)
		}
		text, err := request.Encode(signer)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.PublishRequest(t.Context(), "$SYS.REQ.USER.AUTH", conn.NewInbox(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for end := time.After(deadline); !done(); {
			select {
			case <-ticker.C:
			case <-end:
				t.Fatalf("waiting until %s: %d decisions", what, decided.Load())
			}
		}
	}
	// As many as are decided at once, and then others that wait.
	until("all workers are busy", func() bool { ask("first"); return decided.Load() == 64 })
	for range 200 {
		ask("old")
	}
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// They arrive shortly after they were sent.
	<-time.After(3 * time.Second)
	close(release)
	until("a new question is decided", func() bool { ask("new"); return fresh.Load() > 0 })
	// Questions are handled in order, so the old ones were handled before.
	if n := old.Load(); n > 0 {
		t.Errorf("%d of the old questions were decided", n)
	}
}
