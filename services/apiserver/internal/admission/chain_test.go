package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestDefaultSet holds the plugins that run by default to those of kube-apiserver's
// --enable-admission-plugins that there are, with NodeRestriction, and their order to Kubernetes' (AllOrderedPlugins).
func TestDefaultSet(t *testing.T) {
	w := newWorld()
	escalation := Plugin{Name: "Escalation"}
	another := Plugin{Name: "Another"}
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"by default", Config{Authorizer: &asked{}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval",
			"CertificateSigning", "CertificateSubjectRestriction", "ResourceQuota",
		}},
		{"with those that are off", Config{Authorizer: &asked{}, Enable: []string{"AlwaysPullImages", "OwnerReferencesPermissionEnforcement"}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass",
			"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ResourceQuota",
		}},
		{"with others'", Config{Extra: []Plugin{escalation, another}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateSubjectRestriction",
			"Escalation", "Another", "ResourceQuota",
		}},
		{"without some", Config{
			Extra:   []Plugin{another},
			Disable: []string{"PodSecurity", "NodeRestriction", "ResourceQuota", "LimitRanger", "DefaultStorageClass", "PersistentVolumeClaimResize"},
		}, []string{
			"NamespaceLifecycle", "ServiceAccount", "TaintNodesByCondition", "Priority", "DefaultTolerationSeconds", "RuntimeClass", "CertificateSubjectRestriction", "Another",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Table, tc.cfg.Lookup = w.table, w
			chain, err := New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, chain.Names()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesOfPlugins(t *testing.T) {
	w := newWorld()
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"unknown to enable", Config{Enable: []string{"PodSecurty"}}, []string{`enable-admission-plugins plugin "PodSecurty" is unknown`, "NamespaceLifecycle", "ResourceQuota"}},
		{"unknown to disable", Config{Disable: []string{"Webhooks"}}, []string{`disable-admission-plugins plugin "Webhooks" is unknown`}},
		{"both", Config{Enable: []string{"PodSecurity"}, Disable: []string{"PodSecurity"}}, []string{"[PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped"}},
		{"two of a name", Config{Extra: []Plugin{{Name: "Priority"}}}, []string{`two plugins named "Priority"`}},
		{"what cannot be turned off", Config{Extra: []Plugin{{Name: "Escalation"}}, Disable: []string{"Escalation"}}, []string{`"Escalation" is unknown`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Table, tc.cfg.Lookup = w.table, w
			_, err := New(tc.cfg)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a chain of nothing was made")
	}
}

// TestWhenPluginsRun checks that all plugins mutate before any validates, each in order, that
// a refusal ends it, and that what was done is then taken back.
func TestWhenPluginsRun(t *testing.T) {
	var ran []string
	say := func(name string, err error) func(context.Context, *Request) error {
		return func(_ context.Context, req *Request) error {
			ran = append(ran, name)
			req.undo = append(req.undo, func(context.Context) { ran = append(ran, "undo "+name) })
			return err
		}
	}
	chain := &Chain{plugins: []Plugin{
		{Name: "a", Mutate: say("a mutates", nil), Validate: say("a validates", nil)},
		{Name: "b", Validate: say("b validates", errors.New("no"))},
		{Name: "c", Mutate: say("c mutates", nil), Validate: say("c validates", nil)},
	}}
	w := newWorld()
	if _, err := w.run(t, chain, &Request{Object: pod()}); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	want := "a mutates, c mutates, a validates, b validates, undo a mutates, undo c mutates, undo a validates, undo b validates"
	if got := strings.Join(ran, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestOrdinaryPod runs a pod through all plugins that are on by default.
func TestOrdinaryPod(t *testing.T) {
	w := newWorld()
	p := pod()
	warnings, err := w.try(t, &Request{Object: p}, &asked{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", err, warnings)
	}
	if p.Spec.ServiceAccountName != "default" || p.Spec.Priority == nil || len(p.Spec.Tolerations) != 2 || len(p.Spec.Volumes) != 1 {
		t.Errorf("got %+v", p.Spec)
	}
	// A binding is admitted as what it is, below a pod.
	_, err = w.try(t, &Request{
		Kind: scheme.For[*corev1.Pod](w.table), Namespace: "ns", Name: "p", Subresource: "binding", Object: &corev1.Binding{},
	}, &asked{})
	if err != nil {
		t.Errorf("a binding: %v", err)
	}
}
