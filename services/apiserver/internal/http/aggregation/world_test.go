package aggregation

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an apiserver's APIs, and a server of others.
type world struct {
	t       *testing.T
	apis    *APIs
	gate    *drain.Gate
	other   *webhooktest.Server
	front   *httptest.Server // serves the APIs to user
	user    authn.User
	refused error // of the Resolver
}

var wardle = schema.GroupVersion{Group: "wardle.example.com", Version: "v1"}

// newWorld returns a world whose APIService is available.
func newWorld(t *testing.T, serve http.HandlerFunc) *world {
	t.Helper()
	table := scheme.New()
	encoder := response.New(table, slog.New(slog.DiscardHandler))
	w := &world{t: t, gate: drain.New(), user: authn.User{
		Name: "jane", UID: "u1", Groups: []string{"devs", "system:authenticated"}, Extra: map[string][]string{"example.com/scope": {"a", "b"}},
	}}
	w.other = webhooktest.Start(t, serve, "api.wardle.svc")
	w.apis = New(Config{
		Resolver: w, Dial: (&net.Dialer{}).DialContext, Gate: w.gate, Encoder: encoder,
		Certificate: func() (*tls.Certificate, error) { return &tls.Certificate{}, nil },
	})
	w.keep(w.service())
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.apis.Serves(r.URL.Path) {
			http.Error(rw, "it is not served elsewhere", http.StatusTeapot)
			return
		}
		rw.Header().Set("Audit-Id", "audit-1")
		w.apis.ServeHTTP(rw, r.WithContext(authn.WithUser(r.Context(), w.user)))
	}))
	t.Cleanup(func() {
		w.front.Close()
		w.keep()
	})
	return w
}

// Resolve implements Resolver.
func (w *world) Resolve(_ context.Context, namespace, name string, port int32) (endpoints.Endpoint, error) {
	if namespace != "wardle" || name != "api" || port != 443 {
		return endpoints.Endpoint{}, errors.New("no such service")
	}
	u, err := url.Parse(w.other.URL)
	if err != nil {
		return endpoints.Endpoint{}, err
	}
	return endpoints.Endpoint{Address: u.Host}, w.refused
}

// service returns an APIService that is available.
func (w *world) service() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.wardle.example.com", UID: "s1"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: wardle.Group, Version: wardle.Version, GroupPriorityMinimum: 100, VersionPriority: 15, CABundle: w.other.CABundle,
			Service: &apiregistrationv1.ServiceReference{Namespace: "wardle", Name: "api"},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{
			{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue},
		}},
	}
}

func (w *world) keep(services ...*apiregistrationv1.APIService) { w.apis.Keep(services) }

// ask sends a request through the apiserver.
func (w *world) ask(method, path string, header http.Header) (code int, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.front.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// authority returns the certificate of another authority.
func authority(t *testing.T) []byte {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
