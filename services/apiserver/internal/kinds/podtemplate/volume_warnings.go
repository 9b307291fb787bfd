package podtemplate

import (
	"fmt"
	"slices"
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

// overlaps warns about two files of a volume when one's path equals or contains the other's.
func (l *list) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		l.overlapping(keyPaths(v.ConfigMap.Items), "volume %q (ConfigMap %q)", v.Name, v.ConfigMap.Name)
	case v.Secret != nil:
		l.overlapping(keyPaths(v.Secret.Items), "volume %q (Secret %q)", v.Name, v.Secret.SecretName)
	case v.DownwardAPI != nil:
		l.overlapping(downwardPaths(v.DownwardAPI.Items), "volume %q (DownwardAPI)", v.Name)
	case v.Projected != nil:
		l.projected(v.Name, v.Projected)
	}
}

func (l *list) projected(volume string, p *corev1.ProjectedVolumeSource) {
	var before []string
	for _, s := range p.Sources {
		if s == (corev1.VolumeProjection{}) {
			*l = append(*l, fmt.Sprintf("volume %q (Projected) has no sources provided", volume))
			continue
		}
		var paths []string
		what := ""
		switch {
		case s.ConfigMap != nil:
			paths, what = keyPaths(s.ConfigMap.Items), fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name)
		case s.Secret != nil:
			paths, what = keyPaths(s.Secret.Items), fmt.Sprintf("Secret %q", s.Secret.Name)
		case s.DownwardAPI != nil:
			paths, what = downwardPaths(s.DownwardAPI.Items), "DownwardAPI"
		case s.ServiceAccountToken != nil:
			paths, what = []string{s.ServiceAccountToken.Path}, "ServiceAccountToken"
		case s.ClusterTrustBundle != nil:
			name := s.ClusterTrustBundle.SignerName
			if s.ClusterTrustBundle.Name != nil {
				name = s.ClusterTrustBundle.Name
			}
			if name != nil {
				what = fmt.Sprintf("ClusterTrustBundle %q", *name)
			}
			paths = []string{s.ClusterTrustBundle.Path}
		}
		if len(paths) == 0 {
			continue
		}
		l.overlapping(paths, "volume %q (Projected %s)", volume, what)
		slices.Sort(paths)
		paths = slices.Compact(paths)
		all := append(slices.Clone(paths), before...)
		slices.Sort(all)
		l.overlapping(all, "volume %q (Projected %s)", volume, what)
		before = append(before, paths...)
	}
}

func (l *list) overlapping(paths []string, format string, args ...any) {
	var before []string
	for _, path := range paths {
		path = strings.TrimRight(path, "/")
		for _, other := range before {
			if path != "" && other != "" && (path == other || strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/")) {
				*l = append(*l, fmt.Sprintf(format, args...)+fmt.Sprintf(": overlapping paths: %q with %q", path, other))
				break
			}
		}
		if !slices.Contains(before, path) {
			before = append(before, path)
		}
	}
}

func keyPaths(items []corev1.KeyToPath) []string {
	var paths []string
	for _, item := range items {
		paths = append(paths, item.Path)
	}
	return paths
}

func downwardPaths(items []corev1.DownwardAPIVolumeFile) []string {
	var paths []string
	for _, item := range items {
		paths = append(paths, item.Path)
	}
	return paths
}

// ClaimWarnings returns the warnings about the spec of a claim.
func ClaimWarnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var l list
	l.fraction(spec.Resources.Requests, corev1.ResourceStorage, path.Child("resources", "requests"))
	l.fraction(spec.Resources.Limits, corev1.ResourceStorage, path.Child("resources", "limits"))
	return l
}
