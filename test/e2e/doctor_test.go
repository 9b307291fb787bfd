package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/test/e2e/plane"
)

// finding is one finding of the doctor.
type finding struct{ Group, Name, Level, Says, Advice string }

// examined returns what the doctor finds, and its exit code.
func examined(t *testing.T, p *plane.Plane) (findings []finding, code int) {
	t.Helper()
	res := p.Garboard(t, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(res.Stdout), &findings); err != nil {
		t.Fatalf("decoding the doctor's output %s%s: %v", res.Stdout, res.Stderr, err)
	}
	return findings, res.Code
}

// diagnosed waits until the doctor exits with code and finds everything in want ("LEVEL group:
// name"). If only is set, it must find nothing else, apart from findings at level OK.
func diagnosed(t *testing.T, p *plane.Plane, code int, only bool, want ...string) {
	t.Helper()
	plane.Eventually(t, "the doctor's diagnosis", func(context.Context) error {
		findings, got := examined(t, p)
		var bad []string
		for _, f := range findings {
			if f.Level != "OK" {
				bad = append(bad, f.Level+" "+f.Group+": "+f.Name)
				if f.Advice == "" {
					t.Errorf("no advice for %+v", f)
				}
			}
		}
		missing := want
		if !only {
			missing = nil
			for _, w := range want {
				if !strings.Contains(strings.Join(bad, "\n")+"\n", w+"\n") {
					missing = append(missing, w)
				}
			}
		}
		if got != code || only && strings.Join(bad, "\n") != strings.Join(want, "\n") || !only && len(missing) > 0 {
			return fmt.Errorf("exit code %d, want %d, and %q; found %+v", got, code, missing, findings)
		}
		return nil
	})
}

// TestDoctor checks that the doctor finds nothing wrong with a sound plane, and finds what is wrong
// with a kubeconfig.
func TestDoctor(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "2")
	// The plane listens on a loopback address.
	diagnosed(t, p, 1, true, "WARN Apiservers: endpoints")
	// On a machine that stalls now and then, an informer may be behind just when the doctor looks.
	has := func(t *testing.T, want []string, args ...string) {
		t.Helper()
		plane.Eventually(t, "the output of garboard "+strings.Join(args, " "), func(context.Context) error {
			out := p.Garboard(t, args...)
			for _, want := range want {
				if out.Code > 1 || !strings.Contains(out.Stdout, want) {
					return fmt.Errorf("exit code %d; it lacks %q:\n%s%s", out.Code, want, out.Stdout, out.Stderr)
				}
			}
			return nil
		})
	}
	has(t, []string{"API\n", "\netcd main\n", "\nNATS\n", "  OK    ready: 2 of 2\n", " 1 WARN, 0 FAIL\n"}, "doctor")
	t.Run("watchers", func(t *testing.T) {
		has(t, []string{"SERVICE", "controllers ", "deployments.apps", "synced via NATS", "nodeagent/node-2", "node=node-2", "system:kube-scheduler"},
			"watchers", "-o", "wide")
	})
	t.Run("another authority", func(t *testing.T) {
		diagnosed(t, changed(t, p, func(c *clientcmdapi.Config) {
			for _, cluster := range c.Clusters {
				cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", selfSigned(t)
			}
		}), 2, true, "FAIL API: trust", "FAIL API: ready")
	})
	t.Run("expired certificate", func(t *testing.T) {
		authority, err := tls.LoadX509KeyPair(filepath.Join(p.DataDir, "pki", "ca.crt"), filepath.Join(p.DataDir, "pki", "ca.key"))
		if err != nil {
			t.Fatal(err)
		}
		cert, key := issued(t, &authority, time.Now().Add(-time.Hour))
		diagnosed(t, changed(t, p, func(c *clientcmdapi.Config) {
			for _, user := range c.AuthInfos {
				*user = clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
			}
		}), 2, true, "FAIL API: client certificate", "FAIL API: ready")
	})
	t.Run("unreachable apiserver", func(t *testing.T) {
		address := plane.FreeAddress(t)
		diagnosed(t, changed(t, p, func(c *clientcmdapi.Config) {
			for _, cluster := range c.Clusters {
				cluster.Server = "https://" + address
			}
		}), 2, true, "FAIL API: connection")
	})
	t.Run("no rights", func(t *testing.T) {
		expect(t, p, "", "created", "create", "serviceaccount", "nosy")
		token := strings.TrimSpace(p.Must(t, "", "create", "token", "nosy"))
		diagnosed(t, p.WithToken(t, token), 2, false, "FAIL Plane: status", "FAIL Leases: all", "FAIL Nodes: all")
	})
}

// changed returns the plane with a changed copy of its kubeconfig.
func changed(t *testing.T, p *plane.Plane, change func(*clientcmdapi.Config)) *plane.Plane {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return p.As(path)
}

// issued returns an administrator's certificate that expires at ends, and its key. A nil authority
// makes it self-signed.
func issued(t *testing.T, authority *tls.Certificate, ends time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wanted := &x509.Certificate{
		SerialNumber: big.NewInt(4711), Subject: pkix.Name{CommonName: "late", Organization: []string{"system:masters"}},
		NotBefore: ends.Add(-time.Hour), NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	issuer, by := wanted, any(private)
	if authority == nil {
		wanted.IsCA, wanted.BasicConstraintsValid = true, true
	} else if issuer, err = x509.ParseCertificate(authority.Certificate[0]); err != nil {
		t.Fatal(err)
	} else {
		by = authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, wanted, issuer, private.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	cert, _ := issued(t, nil, time.Now().Add(24*time.Hour))
	return cert
}

// TestDoctorOfSeparateServices: the doctor detects dead controllers and an unreachable NATS if it
// can reach an apiserver.
func TestDoctorOfSeparateServices(t *testing.T) {
	dir := t.TempDir()
	for _, service := range []string{"apiserver", "controllers"} {
		plane.Build(t, dir, service)
	}
	certDir := filepath.Join(dir, "pki")
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	nats, stopNATS := runNATS(t, embedded.Config{Port: embedded.RandomPort, StoreDir: t.TempDir(), Auth: auth, AuthTimeout: authTimeout})
	address, kubeconfig := plane.FreeAddress(t), filepath.Join(dir, "admin.kubeconfig")
	start(t, filepath.Join(dir, "apiserver"), "--listen", address, "--cert-dir", certDir,
		"--etcd-servers", startEtcd(t, dir), "--nats-servers", nats.URL(), "--write-kubeconfig", kubeconfig)
	p := plane.At(plane.Binary(t), dir, kubeconfig)
	plane.Eventually(t, "the apiserver to be ready", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "--raw", "/readyz"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	controllers := exec.Command(filepath.Join(dir, "controllers"), "--kubeconfig", userConfig(t, certDir, address, "system:kube-controller-manager"),
		"--nats-servers", nats.URL(), "--health-address", "127.0.0.1:0")
	if err := controllers.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = controllers.Process.Kill()
		_ = controllers.Wait() // The error reports the kill.
	}
	defer kill()
	// The plane has no scheduler and no node.
	diagnosed(t, p, 2, false, "FAIL Leases: scheduler", "WARN Nodes: all")
	plane.Eventually(t, "controllers that lead and receive changes over NATS", func(context.Context) error {
		findings, _ := examined(t, p)
		for _, f := range findings {
			if f.Group == "Informers" && f.Name == "lag" && f.Level == "OK" {
				for _, f := range findings {
					if f.Group == "Leases" && f.Name == "controllers" && f.Level == "OK" {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("found %+v", findings)
	})
	kill()
	diagnosed(t, p, 2, false, "FAIL Leases: controllers")
	stopNATS()
	diagnosed(t, p, 2, false, "FAIL NATS: connection")
	if res := p.Garboard(t, "watchers"); res.Code != 1 || !strings.Contains(res.Stderr, "asking the processes of the plane for their reports") {
		t.Errorf("watchers without NATS: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}
