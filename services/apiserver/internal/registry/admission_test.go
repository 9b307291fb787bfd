package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// onlooker is a plugin that records what it sees, and refuses objects named "refused".
type onlooker struct{ saw []string }

func (o *onlooker) plugin() admission.Plugin {
	return admission.Plugin{Name: "Onlooker", Mutate: o.see("mutate"), Validate: o.see("validate")}
}

func (o *onlooker) see(step string) func(context.Context, *admission.Request) error {
	return func(_ context.Context, req *admission.Request) error {
		what := fmt.Sprintf("%s %s %s", step, req.Verb, req.Kind.Resource)
		if req.Subresource != "" {
			what += "/" + req.Subresource
		}
		if req.Name != "" && !strings.HasPrefix(req.Name, "g-") {
			what += " " + req.Name
		}
		if req.Object != nil {
			what += fmt.Sprintf(" new=%T", req.Object)
			if req.Object.GetUID() != "" {
				what += " with uid"
			}
		}
		if req.Old != nil {
			what += fmt.Sprintf(" old=%T", req.Old)
		}
		if req.DryRun {
			what += " dry"
		}
		o.saw = append(o.saw, strings.ReplaceAll(what, "*v1.", ""))
		if step == "validate" && req.Name == "refused" {
			return errors.New("no")
		}
		return nil
	}
}

// TestWhereAdmissionRuns checks that plugins run where Kubernetes runs them: they mutate what the
// client sent, and validate what will be written after validation. A deletion is validated with the
// object.
func TestWhereAdmissionRuns(t *testing.T) {
	t.Parallel()
	o := &onlooker{}
	w := newWorld(t, func(c *registrytest.Config) { c.Admission = []admission.Plugin{o.plugin()} })
	pods, deployments := resource[*corev1.Pod](w), resource[*appsv1.Deployment](w)
	pod := func(name string) *corev1.Pod {
		p := newPod(name)
		p.Namespace = "default"
		return p
	}
	same := func(change func(scheme.Object)) func(scheme.Object) (scheme.Object, error) {
		return func(current scheme.Object) (scheme.Object, error) {
			obj := current.DeepCopyObject().(scheme.Object)
			change(obj)
			return obj, nil
		}
	}
	label := same(func(obj scheme.Object) { obj.SetLabels(map[string]string{"a": "b"}) })
	ctx := t.Context()
	dry := []string{metav1.DryRunAll}
	for _, tc := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"create", func() error { _, err := pods.Create(ctx, "default", pod("p"), metav1.CreateOptions{}); return err },
			[]string{"mutate create pods p new=Pod", "validate create pods p new=Pod with uid"}},
		{"create, dry", func() error {
			_, err := pods.Create(ctx, "default", pod("q"), metav1.CreateOptions{DryRun: dry})
			return err
		}, []string{"mutate create pods q new=Pod dry", "validate create pods q new=Pod with uid dry"}},
		{"create with a generated name", func() error {
			p := pod("")
			p.GenerateName = "g-"
			_, err := pods.Create(ctx, "default", p, metav1.CreateOptions{})
			return err
		}, []string{"mutate create pods new=Pod", "validate create pods new=Pod with uid"}},
		{"create an invalid object", func() error {
			p := pod("p")
			p.Spec.Containers = nil
			_, err := pods.Create(ctx, "default", p, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}, []string{"mutate create pods p new=Pod"}},
		{"update", func() error { _, err := pods.Update(ctx, "default", "p", label, registry.UpdateOptions{}); return err },
			[]string{"mutate update pods p new=Pod with uid old=Pod", "validate update pods p new=Pod with uid old=Pod"}},
		{"update of the status, dry", func() error {
			_, err := pods.Update(ctx, "default", "p", label, registry.UpdateOptions{Subresource: "status", DryRun: true})
			return err
		}, []string{"mutate update pods/status p new=Pod with uid old=Pod dry", "validate update pods/status p new=Pod with uid old=Pod dry"}},
		{"bind", func() error {
			_, err := binding.Bind(ctx, pods, "default", "p", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "n"}}, metav1.CreateOptions{})
			return err
		}, []string{"mutate create pods/binding p new=Binding", "validate create pods/binding p new=Binding"}},
		{"evict", func() error {
			return eviction.Evict(ctx, w.Registry, "default", "p", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}, metav1.CreateOptions{DryRun: dry})
		}, []string{"mutate create pods/eviction p new=Eviction dry", "validate create pods/eviction p new=Eviction dry"}},
		{"delete, dry", func() error {
			_, _, err := pods.Delete(ctx, "default", "p", metav1.DeleteOptions{DryRun: dry})
			return err
		}, []string{"mutate delete pods p old=Pod dry", "validate delete pods p old=Pod dry"}},
		{"delete a missing object", func() error {
			if _, _, err := pods.Delete(ctx, "default", "none", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}, nil},
		{"delete of each of a collection", func() error {
			create(w, "default", pod("r"))
			o.saw = nil
			_, err := pods.DeleteCollection(ctx, "default", metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=r"})
			return err
		}, []string{"mutate delete pods old=Pod", "validate delete pods old=Pod"}},
		{"scale", func() error {
			labels := map[string]string{"app": "web"}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
			d.Spec.Template.Labels, d.Spec.Template.Spec = labels, newPod("").Spec
			create(w, "default", d)
			o.saw = nil
			_, err := scale.Update(ctx, deployments, "default", "d", func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
				s.Spec.Replicas = 3
				return s, nil
			}, registry.UpdateOptions{})
			return err
		}, []string{"mutate update deployments/scale d new=Scale with uid old=Scale", "validate update deployments/scale d new=Scale with uid old=Scale"}},
		{"review", func() error {
			return w.Admit(ctx, scheme.For[*authorizationv1.SelfSubjectAccessReview](w.Table), "", &authorizationv1.SelfSubjectAccessReview{}, false)
		}, []string{"mutate create selfsubjectaccessreviews new=SelfSubjectAccessReview", "validate create selfsubjectaccessreviews new=SelfSubjectAccessReview"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o.saw = nil
			if err := tc.do(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, o.saw); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a refusal writes nothing", func(t *testing.T) {
		if _, err := pods.Create(ctx, "default", pod("refused"), metav1.CreateOptions{}); err == nil || err.Error() != "no" {
			t.Errorf("got %v", err)
		}
		if _, err := pods.Get(ctx, "default", "refused"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAttributesOfDeletions checks the name, the namespace and the options that plugins see.
func TestAttributesOfDeletions(t *testing.T) {
	t.Parallel()
	var saw []string
	w := newWorld(t, func(c *registrytest.Config) {
		c.Admission = []admission.Plugin{{Name: "Onlooker", Validate: func(_ context.Context, req *admission.Request) error {
			if opts, ok := req.Options.(*metav1.DeleteOptions); ok {
				grace := "-"
				if opts.GracePeriodSeconds != nil {
					grace = strconv.FormatInt(*opts.GracePeriodSeconds, 10)
				}
				saw = append(saw, fmt.Sprintf("%q %q %s grace=%s old=%s", req.Namespace, req.Name, opts.Kind, grace, req.Old.GetName()))
			}
			return nil
		}}}
	})
	seconds := func(n int64) *int64 { return &n }
	onNode := func(name string, grace *int64) *corev1.Pod {
		p := newPod(name)
		p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "n", grace
		return p
	}
	pods, nodes := resource[*corev1.Pod](w), resource[*corev1.Node](w)
	one := func(opts metav1.DeleteOptions) func() error {
		return func() error {
			_, _, err := pods.Delete(t.Context(), "default", "p", opts)
			return err
		}
	}
	all := func(opts metav1.DeleteOptions) func() error {
		return func() error {
			_, err := pods.DeleteCollection(t.Context(), "default", opts, metav1.ListOptions{})
			return err
		}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		do   func() error
		want string
	}{
		"one, on a node":             {onNode("p", seconds(7)), one(metav1.DeleteOptions{}), `"default" "p" DeleteOptions grace=7 old=p`},
		"one, on no node":            {newPod("p"), one(metav1.DeleteOptions{}), `"default" "p" DeleteOptions grace=0 old=p`},
		"one, with a period":         {onNode("p", seconds(7)), one(metav1.DeleteOptions{GracePeriodSeconds: seconds(3)}), `"default" "p" DeleteOptions grace=3 old=p`},
		"one, with less than none":   {onNode("p", seconds(7)), one(metav1.DeleteOptions{GracePeriodSeconds: seconds(-3)}), `"default" "p" DeleteOptions grace=1 old=p`},
		"one, dry":                   {onNode("p", seconds(7)), one(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), `"default" "p" DeleteOptions grace=7 old=p`},
		"a collection":               {onNode("p", seconds(7)), all(metav1.DeleteOptions{}), `"default" "" DeleteOptions grace=- old=p`},
		"a collection with a period": {onNode("p", seconds(7)), all(metav1.DeleteOptions{GracePeriodSeconds: seconds(3)}), `"default" "" DeleteOptions grace=3 old=p`},
		"a collection, dry":          {newPod("p"), all(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), `"default" "" DeleteOptions grace=- old=p`},
	} {
		t.Run(name, func(t *testing.T) {
			create(w, "default", tc.pod)
			saw = nil
			err := tc.do()
			if diff := cmp.Diff([]string{tc.want}, saw); err != nil || diff != "" {
				t.Errorf("got %v (-want +got):\n%s", err, diff)
			}
			if _, _, err := pods.Delete(t.Context(), "default", "p", metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		})
	}
	create(w, "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	saw = nil
	if _, err := nodes.DeleteCollection(t.Context(), "", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`"" "" DeleteOptions grace=- old=n`}, saw); diff != "" {
		t.Errorf("a collection of a kind without namespaces (-want +got):\n%s", diff)
	}
}

// TestARefusedWriteIsNotCharged makes creates and updates that fail after their quota was charged,
// and dry runs.
func TestARefusedWriteIsNotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit(w, "default", "q", amounts("pods", "5", "services", "5", "services.nodeports", "5"))
	kind := scheme.For[*corev1.ResourceQuota](w.Table)
	eventually(t, "the quota is known", func() bool {
		obj, ok := w.Feeds.Of(kind).Cached("default", "q")
		return ok && len(obj.(*corev1.ResourceQuota).Status.Used) > 0
	})
	// The Service "kubernetes" existed before the quota.
	used := func(want corev1.ResourceList) {
		t.Helper()
		if diff := cmp.Diff(want, get[*corev1.ResourceQuota](w, "default", "q").Status.Used); diff != "" {
			t.Errorf("what is used (-want +got):\n%s", diff)
		}
	}
	create(w, "default", newPod("p"))
	used(amounts("pods", "1", "services", "0", "services.nodeports", "0"))
	pods := resource[*corev1.Pod](w)
	if _, err := pods.Create(t.Context(), "default", newPod("p"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	if _, err := pods.Create(t.Context(), "default", newPod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	used(amounts("pods", "1", "services", "0", "services.nodeports", "0"))

	service := func(name string, port int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
		}}
	}
	create(w, "default", service("a", 30080))
	if _, err := resource[*corev1.Service](w).Create(t.Context(), "default", service("b", 30080), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a port that is taken: %v", err)
	}
	used(amounts("pods", "1", "services", "1", "services.nodeports", "1"))
	create(w, "default", service("c", 0))
	if _, err := update(w, "default", "c", "", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 81, NodePort: 30080})
		s.Spec.Ports[0].Name = "y"
	}); !apierrors.IsInvalid(err) {
		t.Errorf("an update to a port that is taken: %v", err)
	}
	used(amounts("pods", "1", "services", "2", "services.nodeports", "2"))
	if _, err := update(w, "default", "c", "", func(s *corev1.Service) {
		s.Spec.Ports[0].Name = "y"
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 81})
	}); err != nil {
		t.Errorf("an update: %v", err)
	}
	used(amounts("pods", "1", "services", "2", "services.nodeports", "3"))
	_, err := update(w, "default", "c", "", func(s *corev1.Service) {
		for i := range 3 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("z%d", i), Port: int32(90 + i)})
		}
	})
	const want = `services "c" is forbidden: exceeded quota: q, requested: services.nodeports=3, used: services.nodeports=3, limited: services.nodeports=5`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// gated is an etcd stream that delivers no message until the gate is open.
type gated struct {
	grpc.ClientStream
	gate *sync.RWMutex
}

func (g gated) RecvMsg(m any) error {
	err := g.ClientStream.RecvMsg(m)
	g.gate.RLock()
	defer g.gate.RUnlock()
	return err
}

// TestLiveListHasWhatTheCacheLacks lists while the feeds receive nothing.
func TestLiveListHasWhatTheCacheLacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := &sync.RWMutex{}
	late := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, conn, method, opts...)
		return gated{stream, gate}, err
	}
	s, err := store.Open(t.Context(), store.Config{
		Servers: w.Etcd.Endpoints(), Prefix: "/registry", Table: w.Table,
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(late)},
	})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: w.Table})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- feeds.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := feeds.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Follow(feeds)
	gate.Lock()
	defer gate.Unlock()

	kind := scheme.For[*corev1.ConfigMap](w.Table)
	create(w, "kube-system", newConfigMap("elsewhere"))
	create(w, "default", newConfigMap("book"))
	if found, err := w.Lookup().List(t.Context(), kind, "default"); err != nil || len(found) > 0 {
		t.Fatalf("the cache already has %v, %v", found, err)
	}
	found, err := w.Lookup().LiveList(t.Context(), kind, "default")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].GetName() != "book" {
		t.Errorf("found %v", found)
	}
}
