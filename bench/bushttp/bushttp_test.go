// Package bushttp compares calls over HTTP and over NATS. Handler, caller and NATS all run in this process, so cpu-us/op
// is the total cost of a call. impl=https is what an apiserver serves and client-go speaks, HTTP/2 with TLS, and
// impl=nats+tls the same call over a server of NATS as nodes reach it. impl=http (HTTP/1.1) and impl=nats are without
// TLS.
package bushttp

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
)

const (
	small = 1 << 10
	large = 900 << 10
)

// BenchmarkCall posts 1 KB and receives 1 KB with 1, 16 or 64 concurrent callers, or 900 KB with 4.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ reply, callers int }{{small, 1}, {small, 16}, {small, 64}, {large, 4}} {
		name := fmt.Sprintf("reply=%dKB/callers=%d", c.reply>>10, c.callers)
		b.Run(name+"/impl=http", func(b *testing.B) { call(b, overHTTP(b, c.reply, c.callers), c.reply, c.callers) })
		b.Run(name+"/impl=nats", func(b *testing.B) { call(b, overNATS(b, c.reply, false), c.reply, c.callers) })
		b.Run(name+"/impl=https", func(b *testing.B) { call(b, overHTTPS(b, c.reply), c.reply, c.callers) })
		b.Run(name+"/impl=nats+tls", func(b *testing.B) { call(b, overNATS(b, c.reply, true), c.reply, c.callers) })
	}
}

func handler(reply int) http.Handler {
	answer := bytes.Repeat([]byte("a"), reply)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
}

func overHTTP(b *testing.B, reply, callers int) *http.Client {
	b.Helper()
	server := httptest.NewServer(handler(reply))
	b.Cleanup(server.Close)
	client := server.Client()
	transport := client.Transport.(*http.Transport)
	transport.MaxIdleConnsPerHost, transport.DisableCompression = callers, true
	address := server.Listener.Addr().String()
	return &http.Client{Transport: to{address, transport}}
}

// overHTTPS returns a client of HTTP/2 with TLS, whose callers share a connection, as those of client-go do.
func overHTTPS(b *testing.B, reply int) *http.Client {
	b.Helper()
	server := httptest.NewUnstartedServer(handler(reply))
	server.EnableHTTP2 = true
	server.StartTLS()
	b.Cleanup(server.Close)
	client := server.Client()
	client.Transport.(*http.Transport).DisableCompression = true
	return &http.Client{Transport: to{server.Listener.Addr().String(), secure{client.Transport}}}
}

// secure makes requests by https.
type secure struct{ http.RoundTripper }

// RoundTrip makes a request.
func (s secure) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme = "https"
	return s.RoundTripper.RoundTrip(r)
}

// to sends every request to one address.
type to struct {
	address string
	http.RoundTripper
}

func (t to) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = t.address
	return t.RoundTripper.RoundTrip(r)
}

func overNATS(b *testing.B, reply int, encrypted bool) *http.Client {
	b.Helper()
	var server embedded.Config
	var client bus.Config
	if encrypted {
		server.TLS, client.CA = certificate(b)
	}
	nats := bustest.NewServerWith(b, server)
	transport, err := bushttp.New(b.Context(), bushttp.Config{Conn: nats.ConnectAs(client)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(transport.Close)
	for range 2 {
		server := serve.New(serve.Config{Conn: nats.ConnectAs(client), Handler: handler(reply)})
		done := make(chan error, 1)
		go func() { done <- server.Run(b.Context()) }()
		b.Cleanup(func() {
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
	}
	return &http.Client{Transport: transport}
}

// certificate returns a certificate of a server on this machine, and what its clients trust: that of net/http's tests.
func certificate(b *testing.B) (*embedded.TLS, []byte) {
	b.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		b.Fatal(err)
	}
	ca, dir := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), b.TempDir()
	files := &embedded.TLS{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
	if err := errors.Join(
		os.WriteFile(files.CertFile, ca, 0o600),
		os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	); err != nil {
		b.Fatal(err)
	}
	return files, ca
}

func call(b *testing.B, client *http.Client, reply, callers int) {
	b.Helper()
	body := strings.Repeat("q", small)
	one := func() error {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://api/api/v1/namespaces/default/pods", strings.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer some.token.of.usual.length")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, response.Body)
		if err == nil && n != int64(reply) {
			err = fmt.Errorf("got %d bytes, want %d", n, reply)
		}
		return firstOf(err, response.Body.Close())
	}
	b.SetBytes(int64(reply))
	measured(b, one, callers, func() int64 { return cpu(b) })
}

// measured has callers make b.N calls, and reports the CPU time of each, of which used returns the sum in microseconds.
func measured(b *testing.B, one func() error, callers int, used func() int64) {
	b.Helper()
	for began := time.Now(); ; {
		err := one()
		if err == nil {
			break
		}
		if time.Since(began) > time.Minute { // The server has not subscribed yet.
			b.Fatal(err)
		}
	}
	next := make(chan struct{})
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range next {
				if err := one(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	before := used()
	b.ResetTimer()
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// cpu returns the CPU time that this process has used, in microseconds.
func cpu(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano()/1000 + usage.Stime.Nano()/1000
}
