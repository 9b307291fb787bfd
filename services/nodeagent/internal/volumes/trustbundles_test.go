package volumes_test

import (
	"context"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// trustBundles are the trust bundles that an API has.
type trustBundles []*certificatesv1.ClusterTrustBundle

func (b trustBundles) TrustBundle(_ context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	for _, bundle := range b {
		if bundle.Name == name {
			return bundle, nil
		}
	}
	return nil, apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundles"), name)
}

func (b trustBundles) TrustBundles(_ context.Context, signer string, has labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	return slices.DeleteFunc(slices.Clone(b), func(bundle *certificatesv1.ClusterTrustBundle) bool {
		return bundle.Spec.SignerName != signer || !has.Matches(labels.Set(bundle.Labels))
	}), nil
}

// anchor returns a trust anchor, of which only the bytes count here.
func anchor(der string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
}

func bundle(name, signer, tier string, anchors ...string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "# A comment\n" + strings.Join(anchors, "\n# Another\n")},
	}
}

// ders returns what the anchors of a file hold, sorted, and fails the test for anything else in it.
func ders(t *testing.T, text string) string {
	t.Helper()
	var all []string
	rest := []byte(text)
	for len(rest) > 0 {
		block, after := pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			t.Fatalf("the file has %q", rest)
		}
		all, rest = append(all, string(block.Bytes)), after
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestTrustBundles checks which trust anchors a source gets, and which faults keep a pod from its start.
func TestTrustBundles(t *testing.T) {
	const signer = "example.com/ca"
	all := trustBundles{
		bundle("one", "", "", anchor("a"), anchor("b"), anchor("a")),
		bundle("red", signer, "red", anchor("c"), anchor("d")),
		bundle("blue", signer, "blue", anchor("d"), anchor("e")),
		bundle("other", "example.com/other", "red", anchor("f")),
	}
	everything, red := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "red"}}
	for name, tc := range map[string]struct {
		source corev1.ClusterTrustBundleProjection
		want   string
		err    string
	}{
		"by name":                  {source: corev1.ClusterTrustBundleProjection{Name: new("one")}, want: "a b"},
		"by signer":                {source: corev1.ClusterTrustBundleProjection{SignerName: new(signer), LabelSelector: everything}, want: "c d e"},
		"by signer and labels":     {source: corev1.ClusterTrustBundleProjection{SignerName: new(signer), LabelSelector: red}, want: "c d"},
		"no such name":             {source: corev1.ClusterTrustBundleProjection{Name: new("none")}, err: `"none" not found`},
		"no such name, optional":   {source: corev1.ClusterTrustBundleProjection{Name: new("none"), Optional: new(true)}},
		"no such signer":           {source: corev1.ClusterTrustBundleProjection{SignerName: new("example.com/none"), LabelSelector: everything}, err: "no cluster trust bundle of signer example.com/none"},
		"no such signer, optional": {source: corev1.ClusterTrustBundleProjection{SignerName: new("example.com/none"), LabelSelector: everything, Optional: new(true)}},
		"no selector":              {source: corev1.ClusterTrustBundleProjection{SignerName: new(signer)}, err: "has the labels <none>"},
		"no selector, optional":    {source: corev1.ClusterTrustBundleProjection{SignerName: new(signer), Optional: new(true)}},
		"neither":                  {err: "names neither"},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, _ := newVolumes(t, references{trustBundles: all})
			tc.source.Path = "certs/ca.pem"
			paths, errs := v.Setup(t.Context(), withTrust(tc.source))
			err := errors.Join(errs...)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := ders(t, read(t, paths["v"], "certs/ca.pem")); got != tc.want {
				t.Errorf("got the anchors %s, want %s", got, tc.want)
			}
		})
	}
}

func withTrust(source corev1.ClusterTrustBundleProjection) *corev1.Pod {
	return withVolume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &source}}}})
}

// TestTrustBundlesFollowTheirSource checks that a file changes with its bundles and with nothing else, and that it is
// bounded.
func TestTrustBundlesFollowTheirSource(t *testing.T) {
	source := corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: &metav1.LabelSelector{}, Path: "ca.pem"}
	all := trustBundles{bundle("1", "s", "", anchor("a"), anchor("b")), bundle("2", "s", "", anchor("c"))}
	v, _, _ := newVolumes(t, references{trustBundles: all})
	pod := withTrust(source)
	first := read(t, setup(t, v, pod), "ca.pem")
	slices.Reverse(all)
	if again := read(t, setup(t, v, pod), "ca.pem"); again != first {
		t.Errorf("the order of the bundles changed the file from %s to %s", first, again)
	}
	all[0] = bundle("2", "s", "", anchor("z"))
	if got := ders(t, read(t, setup(t, v, pod), "ca.pem")); got != "a b z" {
		t.Errorf("got the anchors %s after a change", got)
	}
	all[1] = bundle("1", "s", "", strings.Repeat(" ", 17<<20))
	if _, errs := v.Setup(t.Context(), pod); errors.Join(errs...) == nil || !strings.Contains(errors.Join(errs...).Error(), "more than 16777216 bytes") {
		t.Errorf("17 MiB of bundles: got %v", errs)
	}
}
