package pki

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// settled is the age from which a file counts as completely written: a younger one may change again
// with the same modification time.
const settled = 100 * time.Millisecond

// Pair is a certificate and its key in two files, which a server or a client presents. It rereads
// them when they change, so that new connections get a renewed certificate. Files that have become unreadable or do not match, as
// happens in the middle of a change, have no effect; Pair logs the fault once.
type Pair struct {
	what              string // for errors and the log: "the serving certificate"
	certPath, keyPath string
	log               *slog.Logger

	mu     sync.Mutex
	seen   [2]fs.FileInfo // of the files as last read, valid or not
	young  bool           // they may have changed since without a trace
	err    error          // the fault of the files
	logged string         // the error that was logged last
	pair   tls.Certificate
}

// NewPair reads the files for the first time. Errors and the log call the certificate what, such as
// "the serving certificate".
func NewPair(what, certPath, keyPath string, log *slog.Logger) (*Pair, error) {
	p := &Pair{what: what, certPath: certPath, keyPath: keyPath, log: log}
	if _, err := p.reload(); err != nil {
		return nil, err
	}
	if end := p.pair.Leaf.NotAfter; time.Now().After(end) {
		log.Error("a certificate has expired; it stays in use until the file holds another", "certificate", what, "file", certPath, "ended", end)
	}
	return p, nil
}

// Certificate returns the current certificate, or the last valid one if the files are invalid. It
// is a tls.Config.GetCertificate function.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch changed, err := p.reload(); {
	case err == nil:
		p.logged = ""
		if changed {
			p.log.Info("reloaded a certificate", "certificate", p.what, "file", p.certPath, "until", p.pair.Leaf.NotAfter)
		}
	case err.Error() != p.logged:
		p.logged = err.Error()
		p.log.Warn("a certificate has changed and is not usable; keeping the previous one", "certificate", p.what, "err", err)
	}
	current := p.pair
	return &current, nil
}

// reload reads the files unless they are unchanged.
func (p *Pair) reload() (changed bool, err error) {
	var infos [2]fs.FileInfo
	for i, path := range [...]string{p.certPath, p.keyPath} {
		if infos[i], err = os.Stat(path); err != nil {
			return false, fmt.Errorf("reading %s: %w", p.what, err)
		}
	}
	if !p.young && same(infos[0], p.seen[0]) && same(infos[1], p.seen[1]) {
		return false, p.err
	}
	certPEM, err := os.ReadFile(p.certPath)
	keyPEM, keyErr := os.ReadFile(p.keyPath)
	if err := errors.Join(err, keyErr); err != nil {
		return false, fmt.Errorf("reading %s: %w", p.what, err)
	}
	p.seen, p.young, p.err = infos, time.Since(infos[0].ModTime()) < settled || time.Since(infos[1].ModTime()) < settled, nil
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		p.err = fmt.Errorf("reading %s from %s and its key from %s: %w", p.what, p.certPath, p.keyPath, err)
		return false, p.err
	}
	changed = p.pair.Leaf == nil || !p.pair.Leaf.Equal(pair.Leaf)
	p.pair = pair
	return changed, nil
}

func same(a, b fs.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
