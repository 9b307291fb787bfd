package metric_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/garboard/garboard/libs/metric"
)

// certificate returns a PEM block of a certificate that expires at end.
func certificate(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// line returns the expected metric line of a file.
func line(file string, end time.Time) string {
	value := strconv.FormatFloat(float64(end.Unix()), 'g', -1, 64)
	return fmt.Sprintf("garboard_certificate_expiration_timestamp_seconds{file=%q} %s", file, value)
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	early, late := time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2032, 5, 1, 0, 0, 0, 0, time.UTC)
	one := write("one.crt", certificate(t, late))
	bundle := write("bundle.crt", "a note\n"+certificate(t, late)+certificate(t, early))
	broken := write("broken.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	key := write("a.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("no")})))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.Certificates(map[string][]byte{"a kubeconfig": []byte(certificate(t, late)), "another": nil}, one, "", bundle, one, broken, key, filepath.Join(dir, "none")))
	expect := func(first, second time.Time) {
		t.Helper()
		recorder := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
		var got []string
		for line := range strings.Lines(recorder.Body.String()) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		want := []string{line(bundle, first), line(one, second), line("a kubeconfig", late)}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(early, late)
	write("one.crt", certificate(t, early))
	expect(early, early)
}

func TestBuild(t *testing.T) {
	registry := prometheus.NewRegistry()
	metric.Build(registry, "v1.2.3")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, family := range families {
		if family.GetName() != "garboard_build_info" || family.GetMetric()[0].GetGauge().GetValue() != 1 {
			t.Errorf("unexpected: %v", family)
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
	}
	if labels["version"] != "v1.2.3" || !strings.HasPrefix(labels["go_version"], "go1.") || labels["kubernetes"] == "" {
		t.Errorf("the labels are %v", labels)
	}
}
