package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestVolumeWarnings checks what is said about each volume type that is gone, and about files that
// hide each other.
func TestVolumeWarnings(t *testing.T) {
	keys := func(paths ...string) []corev1.KeyToPath {
		var list []corev1.KeyToPath
		for _, path := range paths {
			list = append(list, corev1.KeyToPath{Key: "k", Path: path})
		}
		return list
	}
	projected := func(sources ...corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
	}
	files := func(name string, paths ...string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: keys(paths...)}}
	}
	for _, tc := range []struct {
		name   string
		source corev1.VolumeSource
		want   []string
	}{
		{"Photon", corev1.VolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}, []string{
			"spec.volumes[0].photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
		}},
		{"git", corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{}}, []string{"spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"}},
		{"ScaleIO", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}, []string{"spec.volumes[0].scaleIO: deprecated in v1.16, non-functional in v1.22+"}},
		{"Flocker", corev1.VolumeSource{Flocker: &corev1.FlockerVolumeSource{}}, []string{"spec.volumes[0].flocker: deprecated in v1.22, non-functional in v1.25+"}},
		{"StorageOS", corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{}}, []string{"spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+"}},
		{"Quobyte", corev1.VolumeSource{Quobyte: &corev1.QuobyteVolumeSource{}}, []string{"spec.volumes[0].quobyte: deprecated in v1.22, non-functional in v1.25+"}},
		{"CephFS", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{}}, []string{"spec.volumes[0].cephfs: deprecated in v1.28, non-functional in v1.31+"}},
		{"names that begin alike, no paths", projected(files("m", "a", "ab", "", "")), nil},
		{"a directory after its file", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: keys("a/b", "c", "a/")}}, []string{
			`volume "v" (Secret "s"): overlapping paths: "a" with "a/b"`,
		}},
		{"one file three times", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: keys("a", "a", "a")}}, []string{
			`volume "v" (Secret "s"): overlapping paths: "a" with "a"`,
			`volume "v" (Secret "s"): overlapping paths: "a" with "a"`, `volume "v" (Secret "s"): overlapping paths: "a" with "a"`,
		}},
		{"files of two maps, then nothing", projected(files("m", "a", "a/b", "c"), files("n", "c/", "d", "a"), corev1.VolumeProjection{}), []string{
			`volume "v" (Projected): overlapping paths: "a/b" (ConfigMap "m") with "a" (ConfigMap "m")`,
			`volume "v" (Projected): overlapping paths: "c" (ConfigMap "n") with "c" (ConfigMap "m")`,
			`volume "v" (Projected): overlapping paths: "a" (ConfigMap "n") with "a" (ConfigMap "m")`,
			`volume "v" (Projected): overlapping paths: "a" (ConfigMap "n") with "a/b" (ConfigMap "m")`,
			`volume "v" (Projected) has no sources provided`,
		}},
		{"every other source", projected(
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "a"}},
			corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "a/b"}}}},
			corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("t"), Path: "c"}},
			corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), Path: "c/d"}},
			corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{CertificateChainPath: "e", KeyPath: "e/f", CredentialBundlePath: "e/f/g"}},
		), []string{
			`volume "v" (Projected): overlapping paths: "a/b" (DownwardAPI) with "a" (ServiceAccountToken)`,
			`volume "v" (Projected): overlapping paths: "c/d" (ClusterTrustBundle "example.com/s") with "c" (ClusterTrustBundle "t")`,
			`volume "v" (Projected): overlapping paths: "e/f" (PodCertificate key) with "e" (PodCertificate chain)`,
			`volume "v" (Projected): overlapping paths: "e/f/g" (PodCertificate credential bundle) with "e" (PodCertificate chain)`,
			`volume "v" (Projected): overlapping paths: "e/f/g" (PodCertificate credential bundle) with "e/f" (PodCertificate key)`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: tc.source}}}}
			if diff := cmp.Diff(tc.want, PodWarnings(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
