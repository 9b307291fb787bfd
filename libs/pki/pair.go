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

// settled is the age from which a file is taken for written: one that is younger may change
// again without its time of change showing it.
const settled = 100 * time.Millisecond

// Pair is a server's certificate and its key in two files, read again when they change, so that
// a renewed certificate is shown to whoever connects next. Files that have become unreadable or
// do not belong together, as happens in the middle of a change, change nothing; the log says
// once what is wrong.
type Pair struct {
	certPath, keyPath string
	log               *slog.Logger

	mu     sync.Mutex
	seen   [2]fs.FileInfo // of the files as they were last read, right or wrong
	young  bool           // they may have changed since without a trace
	err    error          // what was wrong with them
	logged string         // the error that was logged last
	pair   tls.Certificate
}

// NewPair reads the files for the first time.
func NewPair(certPath, keyPath string, log *slog.Logger) (*Pair, error) {
	p := &Pair{certPath: certPath, keyPath: keyPath, log: log}
	if _, err := p.reload(); err != nil {
		return nil, err
	}
	if end := p.pair.Leaf.NotAfter; time.Now().After(end) {
		log.Error("The serving certificate has ended; it is shown until the file holds another", "file", certPath, "ended", end)
	}
	return p, nil
}

// Certificate gives the certificate as it is now, or was before the files became wrong. It is
// tls.Config.GetCertificate.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch changed, err := p.reload(); {
	case err == nil:
		p.logged = ""
		if changed {
			p.log.Info("The serving certificate was read again", "file", p.certPath, "until", p.pair.Leaf.NotAfter)
		}
	case err.Error() != p.logged:
		p.logged = err.Error()
		p.log.Warn("The serving certificate has changed and cannot be used; the one before still counts", "err", err)
	}
	current := p.pair
	return &current, nil
}

// reload reads the files unless they are as they were.
func (p *Pair) reload() (changed bool, err error) {
	var infos [2]fs.FileInfo
	for i, path := range [...]string{p.certPath, p.keyPath} {
		if infos[i], err = os.Stat(path); err != nil {
			return false, fmt.Errorf("reading the serving certificate: %w", err)
		}
	}
	if !p.young && same(infos[0], p.seen[0]) && same(infos[1], p.seen[1]) {
		return false, p.err
	}
	certPEM, err := os.ReadFile(p.certPath)
	keyPEM, keyErr := os.ReadFile(p.keyPath)
	if err := errors.Join(err, keyErr); err != nil {
		return false, fmt.Errorf("reading the serving certificate: %w", err)
	}
	p.seen, p.young, p.err = infos, time.Since(infos[0].ModTime()) < settled || time.Since(infos[1].ModTime()) < settled, nil
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		p.err = fmt.Errorf("reading the serving certificate from %s and its key from %s: %w", p.certPath, p.keyPath, err)
		return false, p.err
	}
	changed = p.pair.Leaf == nil || !p.pair.Leaf.Equal(pair.Leaf)
	p.pair = pair
	return changed, nil
}

func same(a, b fs.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
