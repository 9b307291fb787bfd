package pod

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	fileModeError = "must be a number between 0 and 0777 (octal), both inclusive"
	maxFileMode   = 0o777
	// The lifetime of a projected token, in seconds.
	minTokenSeconds = 10 * 60
	maxTokenSeconds = 1 << 32
)

// volumes checks the volumes of a pod and gives them by name. A pod's name is known only for
// pods: the claims that are made for its ephemeral volumes begin with it.
func volumes(list []corev1.Volume, podName string, at *field.Path) (map[string]*corev1.Volume, field.ErrorList) {
	var errs field.ErrorList
	names := map[string]*corev1.Volume{}
	made := sets.New[string]()
	for i := range list {
		if podName != "" && list[i].Ephemeral != nil {
			made.Insert(podName + "-" + list[i].Name)
		}
	}
	for i := range list {
		v, p := &list[i], at.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		} else {
			for _, msg := range validation.IsDNS1123Label(v.Name) {
				errs = append(errs, field.Invalid(p.Child("name"), v.Name, msg))
			}
			if names[v.Name] != nil {
				errs = append(errs, field.Duplicate(p.Child("name"), v.Name))
			}
			names[v.Name] = v
		}
		if claim := v.PersistentVolumeClaim; claim != nil && made.Has(claim.ClaimName) {
			errs = append(errs, field.Invalid(p.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
		errs = append(errs, volumeSource(v, p)...)
	}
	return names, errs
}

func volumeSource(v *corev1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources := reflect.ValueOf(v.VolumeSource)
	count := 0
	for i := range sources.NumField() {
		if sources.Field(i).IsNil() {
			continue
		}
		if count++; count > 1 {
			name, _, _ := strings.Cut(sources.Type().Field(i).Tag.Get("json"), ",")
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 volume type"))
		}
	}
	switch {
	case count == 0:
		errs = append(errs, field.Required(at, "must specify a volume type"))
	case v.HostPath != nil:
		errs = append(errs, HostPath(v.HostPath, at.Child("hostPath"))...)
	case v.EmptyDir != nil:
		if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Forbidden(at.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
	case v.Secret != nil:
		if v.Secret.SecretName == "" {
			errs = append(errs, field.Required(at.Child("secret", "secretName"), ""))
		}
		errs = append(errs, mode(v.Secret.DefaultMode, at.Child("secret", "defaultMode"))...)
		errs = append(errs, items(v.Secret.Items, at.Child("secret", "items"))...)
	case v.ConfigMap != nil:
		if v.ConfigMap.Name == "" {
			errs = append(errs, field.Required(at.Child("configMap", "name"), ""))
		}
		errs = append(errs, mode(v.ConfigMap.DefaultMode, at.Child("configMap", "defaultMode"))...)
		errs = append(errs, items(v.ConfigMap.Items, at.Child("configMap", "items"))...)
	case v.DownwardAPI != nil:
		errs = append(errs, mode(v.DownwardAPI.DefaultMode, at.Child("downwardAPI", "defaultMode"))...)
		for i := range v.DownwardAPI.Items {
			errs = append(errs, downward(&v.DownwardAPI.Items[i], at.Child("downwardAPI"))...)
		}
	case v.Projected != nil:
		errs = append(errs, projected(v.Projected, at.Child("projected"))...)
	case v.PersistentVolumeClaim != nil:
		if v.PersistentVolumeClaim.ClaimName == "" {
			errs = append(errs, field.Required(at.Child("persistentVolumeClaim", "claimName"), ""))
		}
	case v.NFS != nil:
		errs = append(errs, NFS(v.NFS, at.Child("nfs"))...)
	case v.CSI != nil:
		if v.CSI.Driver == "" {
			errs = append(errs, field.Required(at.Child("csi", "driver"), ""))
		}
	}
	return errs
}

// NFS gives what is wrong with a volume that is a share of an NFS server.
func NFS(source *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if source.Server == "" {
		errs = append(errs, field.Required(at.Child("server"), ""))
	}
	if source.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	if !path.IsAbs(source.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), source.Path, "must be an absolute path"))
	}
	return errs
}

// HostPath gives what is wrong with a volume that is a path of its node.
func HostPath(source *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if source.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	var errs field.ErrorList
	if slices.Contains(strings.Split(source.Path, "/"), "..") {
		errs = append(errs, field.Invalid(at.Child("path"), source.Path, "must not contain '..'"))
	}
	kinds := []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate,
		corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev,
	}
	if source.Type != nil && !slices.Contains(kinds, *source.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), *source.Type, kinds))
	}
	return errs
}

func mode(value *int32, at *field.Path) field.ErrorList {
	if value != nil && (*value < 0 || *value > maxFileMode) {
		return field.ErrorList{field.Invalid(at, *value, fileModeError)}
	}
	return nil
}

func items(list []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range list {
		p := at.Index(i)
		if item.Key == "" {
			errs = append(errs, field.Required(p.Child("key"), ""))
		}
		if item.Path == "" {
			errs = append(errs, field.Required(p.Child("path"), ""))
		} else {
			errs = append(errs, localPath(item.Path, p.Child("path"))...)
		}
		errs = append(errs, mode(item.Mode, p.Child("mode"))...)
	}
	return errs
}

// localPath checks the path of a file in a volume that the node agent writes: names that
// begin with two dots are its own.
func localPath(p string, at *field.Path) field.ErrorList {
	errs := descending(p, at)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") && p != ".." {
		errs = append(errs, field.Invalid(at, p, "must not start with '..'"))
	}
	return errs
}

func downward(file *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if file.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	} else {
		errs = append(errs, localPath(file.Path, at.Child("path"))...)
	}
	switch {
	case file.FieldRef != nil:
		errs = append(errs, fieldRef(file.FieldRef, volumeFields(), at.Child("fieldRef"))...)
		if file.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case file.ResourceFieldRef != nil:
		errs = append(errs, resourceRef(file.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, mode(file.Mode, at.Child("mode"))...)
}

func projected(source *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	errs := mode(source.DefaultMode, at.Child("defaultMode"))
	paths := sets.New[string]()
	use := func(file string) {
		if file == "" {
			return
		}
		if paths.Has(path.Clean(file)) {
			errs = append(errs, field.Invalid(at, source.Sources, fmt.Sprintf("conflicting duplicate paths: %s", file)))
		}
		paths.Insert(path.Clean(file))
	}
	for i := range source.Sources {
		s, p := &source.Sources[i], at.Child("sources").Index(i)
		count := 0
		if s.Secret != nil {
			count++
			if s.Secret.Name == "" {
				errs = append(errs, field.Required(p.Child("secret", "name"), ""))
			}
			errs = append(errs, items(s.Secret.Items, p.Child("secret", "items"))...)
			for _, item := range s.Secret.Items {
				use(item.Path)
			}
		}
		if s.ConfigMap != nil {
			count++
			if s.ConfigMap.Name == "" {
				errs = append(errs, field.Required(p.Child("configMap", "name"), ""))
			}
			errs = append(errs, items(s.ConfigMap.Items, p.Child("configMap", "items"))...)
			for _, item := range s.ConfigMap.Items {
				use(item.Path)
			}
		}
		if s.DownwardAPI != nil {
			count++
			for j := range s.DownwardAPI.Items {
				errs = append(errs, downward(&s.DownwardAPI.Items[j], p.Child("downwardAPI"))...)
				use(s.DownwardAPI.Items[j].Path)
			}
		}
		if s.ServiceAccountToken != nil {
			count++
			errs = append(errs, tokenSource(s.ServiceAccountToken, p.Child("serviceAccountToken"))...)
			use(s.ServiceAccountToken.Path)
		}
		if s.ClusterTrustBundle != nil || s.PodCertificate != nil {
			count++
		}
		switch {
		case count == 0:
			errs = append(errs, field.Required(p, "must specify a volume type"))
		case count > 1:
			errs = append(errs, field.Forbidden(p, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

func tokenSource(token *corev1.ServiceAccountTokenProjection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := token.ExpirationSeconds; s != nil {
		if *s < minTokenSeconds {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes"))
		}
		if *s > maxTokenSeconds {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if token.Path == "" {
		return append(errs, field.Required(at.Child("path"), ""))
	}
	return append(errs, localPath(token.Path, at.Child("path"))...)
}
