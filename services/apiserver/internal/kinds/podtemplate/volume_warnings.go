package podtemplate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes warns about volume types that no longer work, and about files that hide others.
func (l *list) volumes(volumes []corev1.Volume, path *field.Path) {
	for i := range volumes {
		v, at := &volumes[i], path.Index(i)
		for _, gone := range []struct {
			name  string
			used  bool
			since string
		}{
			{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
			{"gitRepo", v.GitRepo != nil, "deprecated in v1.11, and disabled by default in v1.33+"},
			{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
			{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
			{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
			{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if gone.used {
				l.add(at.Child(gone.name), "%s", gone.since)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			*l = append(*l, ClaimWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	for i := range volumes {
		l.overlaps(&volumes[i])
	}
}

// file is a path in a volume; source says where a projected volume has it from.
type file struct{ path, source string }

func (f file) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

// overlaps warns about two files of a volume when one's path equals or contains the other's.
func (l *list) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		l.overlapping(nil, keyFiles(v.ConfigMap.Items, ""), "volume %q (ConfigMap %q)", v.Name, v.ConfigMap.Name)
	case v.Secret != nil:
		l.overlapping(nil, keyFiles(v.Secret.Items, ""), "volume %q (Secret %q)", v.Name, v.Secret.SecretName)
	case v.DownwardAPI != nil:
		l.overlapping(nil, downwardFiles(v.DownwardAPI.Items, ""), "volume %q (DownwardAPI)", v.Name)
	case v.Projected != nil:
		var before []file
		for i := range v.Projected.Sources {
			if v.Projected.Sources[i] == (corev1.VolumeProjection{}) {
				*l = append(*l, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			before = l.overlapping(before, projectedFiles(&v.Projected.Sources[i]), "volume %q (Projected)", v.Name)
		}
	}
}

// projectedFiles returns the files of one source of a projected volume.
func projectedFiles(s *corev1.VolumeProjection) []file {
	switch {
	case s.ConfigMap != nil:
		return keyFiles(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil:
		return keyFiles(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil:
		return downwardFiles(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		return []file{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.SignerName
		if s.ClusterTrustBundle.Name != nil {
			name = s.ClusterTrustBundle.Name
		}
		if name == nil {
			name = new("")
		}
		return []file{{s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case s.PodCertificate != nil:
		c := s.PodCertificate
		return []file{
			{c.CertificateChainPath, "PodCertificate chain"}, {c.KeyPath, "PodCertificate key"},
			{c.CredentialBundlePath, "PodCertificate credential bundle"},
		}
	}
	return nil
}

// overlapping warns about each overlap of a file with one before it, and returns all of them; format and
// args say in which volume.
func (l *list) overlapping(before, files []file, format string, args ...any) []file {
	for _, f := range files {
		f.path = strings.TrimRight(f.path, "/")
		if f.path == "" {
			continue
		}
		for _, other := range before {
			if strings.HasPrefix(f.path+"/", other.path+"/") || strings.HasPrefix(other.path+"/", f.path+"/") {
				*l = append(*l, fmt.Sprintf(format, args...)+fmt.Sprintf(": overlapping paths: %s with %s", f, other))
			}
		}
		before = append(before, f)
	}
	return before
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	var files []file
	for _, item := range items {
		files = append(files, file{item.Path, source})
	}
	return files
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile, source string) []file {
	var files []file
	for _, item := range items {
		files = append(files, file{item.Path, source})
	}
	return files
}

// ClaimWarnings returns the warnings about the spec of a claim.
func ClaimWarnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var l list
	l.fraction(spec.Resources.Requests, corev1.ResourceStorage, path.Child("resources", "requests"))
	l.fraction(spec.Resources.Limits, corev1.ResourceStorage, path.Child("resources", "limits"))
	return l
}
