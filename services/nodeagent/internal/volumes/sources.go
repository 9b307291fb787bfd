package volumes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/nodeagent/internal/downward"
)

func (v *Volumes) configMapFiles(ctx context.Context, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode os.FileMode,
	optional bool) (map[string]file, error) {
	cm, err := v.cfg.References.ConfigMap(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, cm.BinaryData)
	return choose(data, items, mode, optional, "configmap", pod.Namespace+"/"+name)
}

func (v *Volumes) secretFiles(ctx context.Context, pod *corev1.Pod, name string, items []corev1.KeyToPath, mode os.FileMode,
	optional bool) (map[string]file, error) {
	secret, err := v.cfg.References.Secret(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return choose(secret.Data, items, mode, optional, "secret", pod.Namespace+"/"+name)
}

// choose returns the keys of data that items name, or all keys when items is empty.
func choose(data map[string][]byte, items []corev1.KeyToPath, defaultMode os.FileMode, optional bool,
	what, name string) (map[string]file, error) {
	files := make(map[string]file, len(data))
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: defaultMode}
		}
		return files, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return nil, fmt.Errorf("%s references non-existent %s key: %s", what, what, item.Key)
		}
		m := defaultMode
		if item.Mode != nil {
			m = mode(item.Mode)
		}
		if err := checkPath(item.Path); err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, name, err)
		}
		files[item.Path] = file{data: value, mode: m}
	}
	return files, nil
}

func (v *Volumes) downwardFiles(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, defaultMode os.FileMode) (map[string]file, error) {
	files := make(map[string]file, len(items))
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = downward.Field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = downward.Resource(pod, item.ResourceFieldRef.ContainerName, item.ResourceFieldRef, v.cfg.Allocatable())
		default:
			err = fmt.Errorf("the file %s names neither a fieldRef nor a resourceFieldRef", item.Path)
		}
		if err != nil {
			return nil, err
		}
		m := defaultMode
		if item.Mode != nil {
			m = mode(item.Mode)
		}
		files[item.Path] = file{data: []byte(value), mode: m}
	}
	return files, nil
}

func (v *Volumes) projectedFiles(ctx context.Context, pod *corev1.Pod, projected *corev1.ProjectedVolumeSource) (map[string]file, error) {
	files := map[string]file{}
	m := mode(projected.DefaultMode)
	for i := range projected.Sources {
		source := &projected.Sources[i]
		var more map[string]file
		var err error
		switch {
		case source.ConfigMap != nil:
			more, err = v.configMapFiles(ctx, pod, source.ConfigMap.Name, source.ConfigMap.Items, m, isTrue(source.ConfigMap.Optional))
		case source.Secret != nil:
			more, err = v.secretFiles(ctx, pod, source.Secret.Name, source.Secret.Items, m, isTrue(source.Secret.Optional))
		case source.DownwardAPI != nil:
			more, err = v.downwardFiles(pod, source.DownwardAPI.Items, m)
		case source.ServiceAccountToken != nil:
			var token string
			token, err = v.tokens.get(ctx, pod, source.ServiceAccountToken)
			f := file{data: []byte(token), mode: m}
			// Only the pod's one user reads the token, if it has one user (KEP 1205).
			switch user := singleUser(pod); {
			case fsGroup(pod) != nil:
				f.mode = 0o600
			case user != nil:
				f.mode, f.owner = 0o600, user
			}
			more = map[string]file{source.ServiceAccountToken.Path: f}
		case source.ClusterTrustBundle != nil:
			more, err = v.trustBundleFiles(ctx, pod, source.ClusterTrustBundle, m)
		default:
			err = fmt.Errorf("source %d of the projected volume is of a kind that this node agent does not support", i)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, more)
	}
	return files, nil
}

// singleUser returns the user that every container of pod runs as; nil if they differ or it is not
// known.
func singleUser(pod *corev1.Pod) *int64 {
	var user *int64
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		as := (*int64)(nil)
		if pod.Spec.SecurityContext != nil {
			as = pod.Spec.SecurityContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			as = c.SecurityContext.RunAsUser
		}
		if as == nil || (user != nil && *user != *as) {
			return nil
		}
		user = as
	}
	return user
}
