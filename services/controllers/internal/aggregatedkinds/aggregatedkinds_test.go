package aggregatedkinds_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var all = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// server is another API server.
type server struct {
	mu     sync.Mutex
	serves map[string][]metav1.APIResource // by path
}

func serving(resources map[string][]metav1.APIResource) *server { return &server{serves: resources} }

// set changes what is served at a path: nothing without resources.
func (s *server) set(path string, resources ...metav1.APIResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serves[path] = resources; len(resources) == 0 {
		delete(s.serves, path)
	}
}

// listen makes a plane's apiserver pass requests on to the server.
func (s *server) listen(p *controltest.Plane) {
	p.OnDocument(func(path string) ([]byte, error) {
		s.mu.Lock()
		resources, ok := s.serves[path]
		s.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("%s does not answer", path)
		}
		group, version, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
		return p.Resources(schema.GroupVersion{Group: group, Version: version}, resources...), nil
	})
}

func start(t *testing.T, s *server, objs ...scheme.Object) (*controltest.Plane, *aggregatedkinds.Kinds) {
	t.Helper()
	p := controltest.New(t, objs...)
	p.Allow("list watch apiregistration.k8s.io/apiservices")
	s.listen(p)
	kinds := aggregatedkinds.New(p.Deps())
	p.Add(kinds.Run)
	p.Start()
	time.Sleep(time.Second)
	synctest.Wait()
	return p, kinds
}

func resource(name, kind string, verbs ...string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs}
}

func names(kinds []*scheme.Kind) []string {
	all := make([]string, len(kinds))
	for i, kind := range kinds {
		all[i] = kind.Version + "/" + kind.GroupResource().String()
	}
	return all
}

func followed(kinds *aggregatedkinds.Kinds) []string {
	found, _ := kinds.Follow()
	return names(found)
}

// discovered returns what can be deleted.
func discovered(t *testing.T, kinds *aggregatedkinds.Kinds) ([]string, error) {
	t.Helper()
	resources, err := kinds.Discover(t.Context())
	found := make([]*scheme.Kind, len(resources))
	for i, one := range resources {
		found[i] = one.Kind
	}
	return names(found), err
}

// TestKinds checks which kinds are followed and which can be deleted, while servers, their APIServices and what they
// serve change.
func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(map[string][]metav1.APIResource{
			"/apis/wardle.example.com/v1alpha1": {
				resource("fischers", "Fischer", all...), resource("flunders", "Flunder", all...), resource("flunders/status", "Flunder", all...),
			},
			"/apis/wardle.example.com/v1beta1": {resource("flunders", "Flunder", all...)},
			"/apis/metrics.k8s.io/v1beta1":     {resource("nodes", "NodeMetrics", "get", "list"), resource("a b", "Odd", "get")},
			"/apis/queues.example.com/v1":      {resource("mails", "Mail", "delete", "get")},
			"/apis/apps/v2":                    {resource("deployments", "Deployment", all...)},
		})
		p, kinds := start(t, s,
			controltest.APIService("wardle.example.com", "v1alpha1", 10), controltest.APIService("wardle.example.com", "v1beta1", 20),
			controltest.APIService("metrics.k8s.io", "v1beta1", 100), controltest.APIService("queues.example.com", "v1", 100),
			controltest.APIService("apps", "v2", 1), &apiregistrationv1.APIService{
				ObjectMeta: metav1.ObjectMeta{Name: "v1.local.example.com"},
				Spec:       apiregistrationv1.APIServiceSpec{Group: "local.example.com", Version: "v1"},
			})
		select {
		case <-kinds.Done():
		default:
			t.Error("the servers were not asked")
		}
		wanted := []string{"v1beta1/flunders.wardle.example.com", "v1alpha1/fischers.wardle.example.com"}
		if got := followed(kinds); !slices.Equal(got, wanted) {
			t.Errorf("followed are %q, want %q", got, wanted)
		}
		deletable := append([]string{"v1/mails.queues.example.com"}, wanted...)
		if got, err := discovered(t, kinds); err != nil || !slices.Equal(got, deletable) {
			t.Errorf("deleted can be %q, %v, want %q", got, err, deletable)
		}
		if kind := kinds.Kind(schema.GroupKind{Group: "wardle.example.com", Kind: "Flunder"}); kind == nil || kind.Version != "v1beta1" {
			t.Errorf("got the kind %v", kind)
		}
		if kind := kinds.Kind(schema.GroupKind{Group: "apps", Kind: "Deployment"}); kind != nil {
			t.Errorf("another server serves %s", kind.GroupVersionKind)
		}

		// A server that does not answer has what it had.
		before, changed := kinds.Follow()
		s.set("/apis/wardle.example.com/v1beta1")
		time.Sleep(time.Minute)
		synctest.Wait()
		got, err := discovered(t, kinds)
		incomplete := (*aggregatedkinds.Incomplete)(nil)
		if !errors.As(err, &incomplete) || len(incomplete.Failed) != 1 || err.Error() != "unable to retrieve the complete list of server APIs: "+
			"wardle.example.com/v1beta1: /apis/wardle.example.com/v1beta1 does not answer" {
			t.Errorf("got the error %v", err)
		}
		if want := []string{deletable[0], "v1alpha1/fischers.wardle.example.com", "v1alpha1/flunders.wardle.example.com"}; !slices.Equal(got, want) {
			t.Errorf("deleted can be %q, want %q", got, want)
		}
		select {
		case <-changed:
			t.Errorf("followed are now %q", followed(kinds))
		default:
		}
		s.set("/apis/wardle.example.com/v1beta1", resource("flunders", "Flunder", all...), resource("eels", "Eel", all...))
		time.Sleep(time.Minute)
		synctest.Wait()
		after, _ := kinds.Follow()
		if len(after) != 3 || after[0] != before[0] || after[2] != before[1] {
			t.Errorf("followed are %q, of which the first and the last are not as before", names(after))
		}

		// Another version is preferred, and at last none is left.
		p.Remove(controltest.APIService("wardle.example.com", "v1beta1", 20))
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := followed(kinds), []string{wanted[1], "v1alpha1/flunders.wardle.example.com"}; !slices.Equal(got, want) {
			t.Errorf("followed are %q, want %q", got, want)
		}
		p.Remove(controltest.APIService("wardle.example.com", "v1alpha1", 10))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := followed(kinds); len(got) > 0 {
			t.Errorf("followed are %q", got)
		}
	})
}

// TestDiscoverIsFresh checks that an APIService of which the informer has not heard is asked.
func TestDiscoverIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(map[string][]metav1.APIResource{"/apis/wardle.example.com/v1": {resource("flunders", "Flunder", all...)}})
		p := controltest.NewLate(t, "APIService", 5*time.Second)
		s.listen(p)
		kinds := aggregatedkinds.New(p.Deps())
		p.Add(kinds.Run)
		p.Start()
		time.Sleep(10 * time.Second)
		p.Load(controltest.APIService("wardle.example.com", "v1", 10))
		if got, err := discovered(t, kinds); err != nil || len(got) != 1 {
			t.Errorf("got %q, %v", got, err)
		}
		p.Fail(func(call client.Call) error {
			if call.Kind.Kind == "APIService" {
				return errors.New("no list")
			}
			return nil
		})
		if got, err := discovered(t, kinds); err == nil || len(got) > 0 {
			t.Errorf("got %q, %v, without a list of APIServices", got, err)
		}
	})
}

// TestBadServers checks what a server may not say.
func TestBadServers(t *testing.T) {
	var many []metav1.APIResource
	for i := range 501 {
		many = append(many, resource(fmt.Sprintf("r%d", i), "R", all...))
	}
	for name, c := range map[string]struct {
		resources []metav1.APIResource
		want      string
	}{
		"a name that leads elsewhere": {[]metav1.APIResource{resource("..", "Up", all...)}, `the resource ".." of kind "Up" has no valid name`},
		"a name with a percent sign":  {[]metav1.APIResource{resource("%2e%2e", "Up", all...)}, "no valid name"},
		"no name":                     {[]metav1.APIResource{resource("", "None", all...)}, "no valid name"},
		"no kind":                     {[]metav1.APIResource{resource("none", "", all...)}, "no valid name"},
		"too many":                    {many, "there are 501 resources that can be deleted, more than 500"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, kinds := start(t, serving(map[string][]metav1.APIResource{"/apis/a.example.com/v1": c.resources}), controltest.APIService("a.example.com", "v1", 1))
				got, err := discovered(t, kinds)
				if err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 || len(followed(kinds)) > 0 {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
			})
		})
	}
	t.Run("no list", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, kinds := start(t, serving(nil), controltest.APIService("a.example.com", "v1", 1))
			p.OnDocument(func(string) ([]byte, error) { return []byte("<html>"), nil })
			if got, err := discovered(t, kinds); err == nil || !strings.Contains(err.Error(), "reading the list of resources") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	})
}
