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

// TestDefaultSet compares the default plugins with kube-apiserver's --enable-admission-plugins, as
// far as they exist here, plus NodeRestriction, and their order with Kubernetes' AllOrderedPlugins.
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
		{"with plugins that are off by default", Config{Authorizer: &asked{}, Enable: []string{"AlwaysPullImages", "OwnerReferencesPermissionEnforcement"}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass",
			"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ResourceQuota",
		}},
		{"with extra plugins", Config{Extra: []Plugin{escalation, another}}, []string{
			"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "PodSecurity", "Priority",
			"DefaultTolerationSeconds", "DefaultStorageClass", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateSubjectRestriction",
			"Escalation", "Another", "ResourceQuota",
		}},
		{"with disabled plugins", Config{
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
				t.Errorf("the plugins (-want +got):\n%s", diff)
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
		{"enabled and disabled", Config{Enable: []string{"PodSecurity"}, Disable: []string{"PodSecurity"}}, []string{"[PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped"}},
		{"two with the same name", Config{Extra: []Plugin{{Name: "Priority"}}}, []string{`two plugins named "Priority"`}},
		{"a plugin that cannot be disabled", Config{Extra: []Plugin{{Name: "Escalation"}}, Disable: []string{"Escalation"}}, []string{`"Escalation" is unknown`}},
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
		t.Error("New accepted an empty configuration")
	}
}

// TestWhenPluginsRun checks that all plugins mutate before any validates, each in order, that a
// refusal ends the chain, and that the plugins' effects are then undone.
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
		t.Errorf("got %v, want no", err)
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
		t.Fatalf("got %v, warnings %v", err, warnings)
	}
	if p.Spec.ServiceAccountName != "default" || p.Spec.Priority == nil || len(p.Spec.Tolerations) != 2 || len(p.Spec.Volumes) != 1 {
		t.Errorf("got %+v", p.Spec)
	}
	// A binding is admitted with its own type, as a subresource of a pod.
	_, err = w.try(t, &Request{
		Kind: scheme.For[*corev1.Pod](w.table), Namespace: "ns", Name: "p", Subresource: "binding", Object: &corev1.Binding{},
	}, &asked{})
	if err != nil {
		t.Errorf("admitting a binding: %v", err)
	}
}
