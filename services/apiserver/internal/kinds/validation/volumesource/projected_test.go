package volumesource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestProjected(t *testing.T) {
	bundle := func(b corev1.ClusterTrustBundleProjection) []corev1.VolumeProjection {
		return []corev1.VolumeProjection{{ClusterTrustBundle: &b}}
	}
	certificate := func(c corev1.PodCertificateProjection) []corev1.VolumeProjection {
		return []corev1.VolumeProjection{{PodCertificate: &c}}
	}
	keys := func(name string) *corev1.ConfigMapProjection {
		return &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: []corev1.KeyToPath{{Key: "k", Path: "same"}}}
	}
	for _, tc := range []struct {
		name    string
		sources []corev1.VolumeProjection
		want    []string
	}{
		{"nothing in a source", []corev1.VolumeProjection{{}}, nil},
		{"the same file", []corev1.VolumeProjection{{ConfigMap: keys("a")}, {ConfigMap: keys("b")}}, []string{`v.projected: Invalid value: "b": conflicting duplicate paths`}},
		{"two in a source", []corev1.VolumeProjection{{ConfigMap: keys("a"), Secret: &corev1.SecretProjection{}}}, []string{
			"v.projected.sources[0].secret.name: Required value", "v.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
		}},
		{"token", []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(1<<32 + 1))}}}, []string{
			"v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds", "v.projected.path: Required value",
		}},
		{"bundle", bundle(corev1.ClusterTrustBundleProjection{Name: new("example.com:s:b"), Path: "f"}), nil},
		{"bundle of a signer", bundle(corev1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), Path: "f"}), nil},
		{"bundle of nothing", bundle(corev1.ClusterTrustBundleProjection{}), []string{
			"v.projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified", "v.projected.sources[0].clusterTrustBundle.path: Required value",
		}},
		{"bundle with a selector", bundle(corev1.ClusterTrustBundleProjection{Name: new("b"), LabelSelector: &metav1.LabelSelector{}, Path: "../f"}), []string{
			"v.projected.sources[0].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified",
			`v.projected.sources[0].clusterTrustBundle.path: Invalid value: "../f": must not contain '..'`,
		}},
		{"certificate", certificate(corev1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519", KeyPath: "k", CertificateChainPath: "c"}), nil},
		{"bad certificate", certificate(corev1.PodCertificateProjection{SignerName: "kubernetes.io/s", KeyType: "DSA", MaxExpirationSeconds: new(int32(86401))}), []string{
			`v.projected.sources[0].podCertificate.keyType: Unsupported value: "DSA": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"`,
			"v.projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400",
			"v.projected.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := &corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: tc.sources}}}
			errortest.Exactly(t, Volume(v, "", field.NewPath("v")), tc.want...)
		})
	}
}

// TestSameFile checks that two sources of a volume must not have the same file, and what Kubernetes
// then calls invalid: the object that has it, or the file.
func TestSameFile(t *testing.T) {
	keys := []corev1.KeyToPath{{Key: "k", Path: "f"}}
	secret := corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Items: keys}}
	file := corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
		Path: "f", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"},
	}}}}
	bundle := func(path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("b"), Path: path}}
	}
	certificate := func(credential, key, chain string) corev1.VolumeProjection {
		return corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "example.com/s", KeyType: "RSA3072", CredentialBundlePath: credential, KeyPath: key, CertificateChainPath: chain,
		}}
	}
	keyless, nowhere := *secret.DeepCopy(), *file.DeepCopy()
	keyless.Secret.Items = []corev1.KeyToPath{{Key: "k"}, {Key: "l"}}
	nowhere.DownwardAPI.Items[0].Path = ""
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "f", ExpirationSeconds: new(int64(600))}}
	taken := func(value string) string {
		return `v.projected: Invalid value: "` + value + `": conflicting duplicate paths`
	}
	for _, tc := range []struct {
		name    string
		sources []corev1.VolumeProjection
		want    []string
	}{
		{"secret", []corev1.VolumeProjection{file, secret}, []string{taken("s")}},
		{"downward API", []corev1.VolumeProjection{secret, file}, []string{taken("f")}},
		{"bundle", []corev1.VolumeProjection{bundle("f"), bundle("g"), bundle("f")}, []string{taken("f")}},
		{"bundles without a path", []corev1.VolumeProjection{bundle(""), bundle("")}, []string{
			"v.projected.sources[0].clusterTrustBundle.path: Required value", "v.projected.sources[1].clusterTrustBundle.path: Required value", taken(""),
		}},
		{"certificate", []corev1.VolumeProjection{secret, certificate("f", "", "")}, []string{taken("f")}},
		{"within a certificate", []corev1.VolumeProjection{certificate("c", "f", "f")}, []string{taken("f")}},
		{"keys and fields without a path are not compared", []corev1.VolumeProjection{keyless, nowhere, nowhere}, []string{
			"v.projected.sources[0].secret.items[0].path: Required value", "v.projected.sources[0].secret.items[1].path: Required value",
			"v.projected.sources[1].downwardAPI.path: Required value", "v.projected.sources[2].downwardAPI.path: Required value",
		}},
		{"tokens are not compared", []corev1.VolumeProjection{secret, token}, nil},
		{"other directories", []corev1.VolumeProjection{secret, certificate("a/f", "b/f", "c/f")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: tc.sources}}, tc.want...)
		})
	}
}

// TestLifetimes checks the bounds of tokens and certificates, in seconds.
func TestLifetimes(t *testing.T) {
	const token, certificate = "v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: ",
		"v.projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: "
	for _, tc := range []struct {
		signer  string // Nothing means a token.
		seconds int64
		want    string // Nothing means valid.
	}{
		{"", 599, token + "599: may not specify a duration less than 10 minutes"},
		{"", 600, ""},
		{"", 1 << 32, ""},
		{"", 1<<32 + 1, token + "4294967297: may not specify a duration larger than 2^32 seconds"},
		{"example.com/s", 3599, certificate + "3599: if provided, maxExpirationSeconds must be >= 3600"},
		{"example.com/s", 3600, ""},
		{"notkubernetes.io/s", 7862400, ""},
		{"example.com/s", 7862401, certificate + "7862401: if provided, maxExpirationSeconds must be <= 7862400"},
		{"kubernetes.io/s", 86400, ""},
		{"some.kubernetes.io/s", 86401, certificate + "86401: if provided, maxExpirationSeconds must be <= 86400"},
	} {
		t.Run(tc.signer, func(t *testing.T) {
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			source := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "f", ExpirationSeconds: &tc.seconds}}
			if tc.signer != "" {
				source = corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
					SignerName: tc.signer, KeyType: "RSA4096", KeyPath: "k", MaxExpirationSeconds: new(int32(tc.seconds)),
				}}
			}
			check(t, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}, want...)
		})
	}
}

// TestProjectedNames checks the names of signers and bundles, and annotations for signers.
func TestProjectedNames(t *testing.T) {
	bundle := func(b corev1.ClusterTrustBundleProjection) corev1.VolumeProjection {
		b.Path = "f"
		return corev1.VolumeProjection{ClusterTrustBundle: &b}
	}
	const at = "v.projected.sources[0].clusterTrustBundle"
	for _, tc := range []struct {
		name   string
		source corev1.VolumeProjection
		want   []string
	}{
		// Kubernetes shows the same fields with the names of its own type.
		{"name and signer", bundle(corev1.ClusterTrustBundleProjection{Name: new("b"), SignerName: new("s")}), []string{
			at + `: Invalid value: {"name":"b","signerName":"s","path":"f"}: only one of name and signerName may be used`,
		}},
		{"a signer's bundle without a name", bundle(corev1.ClusterTrustBundleProjection{Name: new("example.com:s:")}), []string{
			at + `.name: Invalid value: "example.com:s:": not a valid clustertrustbundlename: ` + subdomain,
		}},
		{"a signer without a path", bundle(corev1.ClusterTrustBundleProjection{SignerName: new("example.com"), LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}},
		}}), []string{
			at + `.signerName: Invalid value: "example.com": must be a fully qualified domain and path of the form 'example.com/signer-name'`,
			at + ".labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		{"no signer", bundle(corev1.ClusterTrustBundleProjection{SignerName: new("")}), []string{
			at + ".signerName: Required value: must be a valid signer name", at + ".signerName: Required value",
		}},
		{"a certificate of no signer", corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			KeyType: "ECDSAP521", KeyPath: "k",
		}}, []string{"v.projected.sources[0].podCertificate.signerName: Required value"}},
		{"an annotation without a domain", corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "example.com/s", KeyType: "ECDSAP256", CredentialBundlePath: "..c", UserAnnotations: map[string]string{"a": "b"},
		}}, []string{
			`v.projected.sources[0].podCertificate.credentialBundlePath: Invalid value: "..c": must not start with '..'`,
			`v.projected.sources[0].podCertificate.userAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`,
		}},
		{"annotations too long", corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "example.com/s", KeyType: "ECDSAP256", KeyPath: "k", UserAnnotations: map[string]string{"a.b/c": strings.Repeat("v", 256<<10)},
		}}, []string{
			"v.projected.sources[0].podCertificate.userAnnotations: Too long: may not be more than 262144 bytes",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{tc.source}}}, tc.want...)
		})
	}
}
