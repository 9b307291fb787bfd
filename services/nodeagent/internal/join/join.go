package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// Bounds of the waits between two attempts; longestPause applies while the node's certificate
	// still works.
	firstPause   = time.Second
	lastPause    = 30 * time.Second
	longestPause = 5 * time.Minute
	// The certificate is replaced at a random point of its life, so that nodes that joined together
	// do not renew together.
	renewFrom, renewTo = 0.7, 0.9
	// repeated is the interval at which an unchanged problem is logged again.
	repeated = time.Minute
	// asked bounds one attempt to obtain a certificate: the bootstrap kubeconfig may change
	// meanwhile.
	asked = 10 * time.Minute
	// tokenless is how long a node without a certificate that works waits for a bootstrap token. A
	// supervisor that took the token away after the first start then starts the agent with one.
	tokenless = 5 * time.Minute
	// doubtful is the interval at which a node whose certificate NATS does not let in tries the bootstrap
	// token: it may also be that no apiserver answers.
	doubtful = time.Minute
)

var (
	errWaits    = errors.New("the request is not decided")
	errRefused  = errors.New("the request is refused")
	errEnded    = errors.New("the certificate has ended")
	errNoToken  = errors.New("there is no bootstrap token")
	errNoServer = errors.New("it names no apiserver, and the agent uses HTTPS only")
	errBegins   = errors.New("the node has not asked for its certificate yet")
)

// Config configures a Joiner; every field but Route, Carry and Renewed is required.
type Config struct {
	// NodeName is the node's name.
	NodeName string
	// Dir is the directory of the certificate; created if it is missing.
	Dir string
	// Kubeconfig is the path of the bootstrap kubeconfig with the apiserver's address, its CA and a
	// bootstrap token. The joiner reads it at each attempt.
	Kubeconfig string
	// Route, if set, routes a configuration to the apiservers; end stops the routing.
	Route func(*rest.Config) (routed *rest.Config, end func(), err error)
	// Carry, if set, sends the calls of a configuration over NATS too, with the configuration's credential;
	// end closes the connection. The host of a configuration may be empty then.
	Carry func(context.Context, *rest.Config) (carried *rest.Config, end func(), err error)
	// Renewed, if set, is called when Path has another certificate than before, and must not block.
	Renewed func()
	// Logger receives the log.
	Logger *slog.Logger
}

// Joiner obtains and renews the node's certificate.
type Joiner struct {
	cfg    Config
	path   string
	client *swap
	open   func(*rest.Config) (client.Interface, error)
	chance func() float64 // in [0, 1)
	wake   chan struct{}

	mu      sync.Mutex
	current *pair
	renewAt time.Time
	refused bool // the apiserver rejected current
	// doubted means that NATS does not let current in, triedAt when the token was last tried for that reason.
	doubted bool
	triedAt time.Time
	problem error // why there is no certificate that works
	logged  string
	when    time.Time
}

// New returns a joiner, which does nothing until Join.
func New(cfg Config) *Joiner {
	j := &Joiner{
		cfg: cfg, path: filepath.Join(cfg.Dir, currentFile), chance: rand.Float64, wake: make(chan struct{}, 1), problem: errBegins,
		open: func(config *rest.Config) (client.Interface, error) { return client.New(config, scheme.New()) },
	}
	j.client = &swap{refused: j.wasRefused, taken: j.wasTaken, doubted: j.wasDoubted}
	return j
}

// Path returns the file of the current certificate and its key; it exists after Join.
func (j *Joiner) Path() string { return j.path }

// Ready explains in one sentence why the node has no usable certificate; nil if it has one.
func (j *Joiner) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.works():
		return nil
	case j.problem != nil:
		return j.problem
	}
	return said(errEnded, "the node's certificate ended on %s; the node asks for another one with the bootstrap token", stamp(j.current.leaf.NotAfter))
}

// Trouble explains in one sentence why the apiserver did not answer the node's last request; nil if
// it did.
func (j *Joiner) Trouble(ctx context.Context) error {
	err := j.client.last()
	if err == nil {
		return nil
	}
	config, problem := j.anonymous()
	if problem != nil {
		return problem
	}
	return (&caller{file: j.cfg.Kubeconfig, config: config, node: true}).explain(ctx, err)
}

// works reports whether there is a certificate that has not expired and is accepted. The caller
// holds mu.
func (j *Joiner) works() bool {
	return j.current != nil && !j.refused && time.Now().Before(j.current.leaf.NotAfter)
}

// due reports whether to request a certificate. The caller holds mu.
func (j *Joiner) due() bool { return !j.works() || j.doubted || !time.Now().Before(j.renewAt) }

// Join returns when the node has a certificate. It returns the connection to the apiserver, which
// always presents the current certificate, and the CA in PEM if the bootstrap kubeconfig names one.
// If no certificate works it requests one and retries until ctx ends: it fails only with errors
// that cannot resolve by themselves, and after five minutes without a bootstrap token.
func (j *Joiner) Join(ctx context.Context) (api *rest.Config, ca []byte, err error) {
	if err := os.MkdirAll(j.cfg.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("creating the directory of the node's certificate: %w", err)
	}
	if err := j.resume(); err != nil {
		return nil, nil, err
	}
	if err := j.obtain(ctx); err != nil {
		return nil, nil, err
	}
	// Even with an existing certificate, the apiserver's address is read from the file.
	delays := backoff.Doubling(firstPause, lastPause, 0)
	for {
		config, err := j.anonymous()
		if err == nil {
			err = j.install(config)
		}
		if err == nil {
			api := client.Over(config, j.client)
			api.Host = config.Host
			api.Wrap(j.client.noting)
			return api, config.CAData, nil
		}
		j.fails(err)
		if !backoff.Sleep(ctx, delays.Step()) {
			return nil, nil, ctx.Err()
		}
	}
}

// Run replaces the certificate whenever it is due, until ctx ends. Call it after Join.
func (j *Joiner) Run(ctx context.Context) error {
	for {
		j.mu.Lock()
		wait := time.Until(j.renewAt)
		if j.due() {
			wait = 0
		}
		j.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-j.wake:
			timer.Stop()
		case <-timer.C:
		}
		if err := j.obtain(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// resume adopts the existing certificate.
func (j *Joiner) resume() error {
	found, err := load(j.path)
	switch {
	case err != nil:
		j.cfg.Logger.Warn("the node's certificate cannot be used; requesting another one", "err", err)
		return nil
	case found == nil:
		j.cfg.Logger.Info("the node has no certificate; requesting one", "node", j.cfg.NodeName, "file", j.path)
		return nil
	}
	if err := found.check(j.cfg.NodeName); err != nil {
		return fmt.Errorf("joining as node %q: the certificate in %s is that of %q; start the agent with that name (--node-name), or remove the file to join under the new one",
			j.cfg.NodeName, j.path, found.leaf.Subject.CommonName)
	}
	if !time.Now().Before(found.leaf.NotAfter) {
		j.cfg.Logger.Warn("the node's certificate has expired; requesting another one with the bootstrap token", "ended", found.leaf.NotAfter)
		return nil
	}
	j.apply(found, found.leaf.NotBefore)
	return nil
}

// apply makes p the current certificate; its life counts from begin.
func (j *Joiner) apply(p *pair, begin time.Time) {
	life := p.leaf.NotAfter.Sub(begin)
	share := renewFrom + (renewTo-renewFrom)*j.chance()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.current, j.refused, j.doubted, j.problem, j.logged = p, false, false, nil, ""
	j.renewAt = begin.Add(time.Duration(share * float64(life)))
	j.cfg.Logger.Info("the node has its certificate", "subject", p.leaf.Subject, "ends", p.leaf.NotAfter, "replacedAt", j.renewAt)
	if ahead := time.Until(p.leaf.NotBefore); ahead > 0 {
		j.cfg.Logger.Warn("the node's certificate is not yet valid by this machine's clock, which is behind: set the clock", "begins", p.leaf.NotBefore, "behindByAtLeast", ahead.Round(time.Second))
	}
}

// obtain obtains a new certificate and retries until it succeeds or none is needed any more. It
// returns an error once there has been no credential to ask with for tokenless.
func (j *Joiner) obtain(ctx context.Context) error {
	var lacking time.Time
	for delays := attempts(); ; {
		j.mu.Lock()
		due, longest := j.due(), lastPause
		if j.works() {
			// Do not wait past the expiry, after which the token is used.
			longest = min(longestPause, max(time.Until(j.current.leaf.NotAfter), firstPause))
		}
		j.mu.Unlock()
		if !due {
			return nil
		}
		delays.Duration = min(delays.Duration, longest/2)
		err := j.attempt(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			delays = attempts() // It succeeded, or the attempt timed out.
			continue
		}
		if j.settles() {
			return nil
		}
		j.fails(err)
		switch {
		case !errors.Is(err, errNoToken):
			lacking = time.Time{}
		case lacking.IsZero():
			lacking = time.Now()
		case time.Since(lacking) >= tokenless:
			return errors.Join(err, j.forgetRefused())
		}
		if !backoff.Sleep(ctx, delays.Step()) {
			return ctx.Err()
		}
	}
}

// attempts returns the delays between attempts to obtain a certificate: from half to all of
// firstPause, doubling. The caller bounds them.
func attempts() wait.Backoff { return backoff.Doubling(firstPause/2, 0, 1) }

// forgetRefused removes a certificate that the apiserver rejects, so that the next start requests
// another one with the token that it is given.
func (j *Joiner) forgetRefused() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.refused {
		return nil
	}
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the certificate that the apiserver rejects: %w", err)
	}
	return nil
}

// attempt requests a new certificate: with the present one if that works, else with the bootstrap
// token.
func (j *Joiner) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	by, err := j.caller()
	if err != nil {
		return err
	}
	made, err := j.ask(ctx, by)
	if err != nil {
		if apiTimedOut := ctx.Err(); apiTimedOut != nil && errors.Is(err, apiTimedOut) {
			return nil // The next attempt continues with the request.
		}
		return err
	}
	if err := made.store(j.path); err != nil {
		return err
	}
	if err := forgetPending(j.cfg.Dir); err != nil {
		return err
	}
	// By a clock that is ahead, most of its life may be over; it must not be replaced at once all
	// the same.
	begin := made.leaf.NotBefore
	if now := time.Now(); begin.Add(made.leaf.NotAfter.Sub(begin) / 2).Before(now) {
		begin = now
	}
	j.apply(made, begin)
	config, err := j.anonymous()
	if err != nil {
		return err
	}
	if err := j.install(config); err != nil {
		return err
	}
	if j.cfg.Renewed != nil {
		j.cfg.Renewed()
	}
	return nil
}

// caller returns the identity that requests the next certificate.
func (j *Joiner) caller() (*caller, error) {
	by := &caller{file: j.cfg.Kubeconfig}
	var err error
	j.mu.Lock()
	present := j.current
	by.node = j.works() && !j.doubted
	j.mu.Unlock()
	if by.node {
		by.config, err = j.anonymous()
		if err == nil {
			by.config.CertData, by.config.KeyData = present.cert, present.key
		}
		return by, err
	}
	by.config, err = j.read()
	if err == nil && !authenticates(by.config) {
		return nil, said(errNoToken, "the node has no certificate that works, and %s has no bootstrap token; start the agent again with one", j.cfg.Kubeconfig)
	}
	return by, err
}

// authenticates reports whether config holds any credential.
func authenticates(config *rest.Config) bool {
	return config.BearerToken != "" || config.BearerTokenFile != "" || len(config.CertData) > 0 || config.CertFile != "" ||
		config.Username != "" || config.ExecProvider != nil || config.AuthProvider != nil
}

// read reads the bootstrap kubeconfig and the files that it names.
func (j *Joiner) read() (*rest.Config, error) {
	config, err := client.LoadServerless(j.cfg.Kubeconfig)
	if err == nil && config.Host == "" && j.cfg.Carry == nil {
		err = errNoServer
	}
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return nil, said(err, "the bootstrap kubeconfig %s cannot be used: %s", j.cfg.Kubeconfig, err)
	}
	return config, nil
}

// anonymous returns the connection to the apiserver without a credential.
func (j *Joiner) anonymous() (*rest.Config, error) {
	config, err := j.read()
	if err != nil {
		return nil, err
	}
	return rest.AnonymousClientConfig(config), nil
}

// install makes the node's clients present the current certificate from now on.
func (j *Joiner) install(config *rest.Config) error {
	j.mu.Lock()
	present := j.current
	j.mu.Unlock()
	config = rest.CopyConfig(config)
	config.CertData, config.KeyData = present.cert, present.key
	if err := j.client.set(config, present.leaf.SerialNumber.String()); err != nil {
		return fmt.Errorf("presenting the node's certificate: %w", err)
	}
	return nil
}

// notify records and logs what is being waited for.
func (j *Joiner) notify(err error) { j.log(slog.LevelInfo, err) }

// fails records and logs a failure.
func (j *Joiner) fails(err error) { j.log(slog.LevelWarn, err) }

// log records err and logs it, if it is new or was not logged for a while.
func (j *Joiner) log(level slog.Level, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.problem = err
	text, now := err.Error(), time.Now()
	if text == j.logged && now.Sub(j.when) < repeated {
		return
	}
	j.logged, j.when = text, now
	j.cfg.Logger.Log(context.Background(), level, "the node has no new certificate yet", "why", text)
}
