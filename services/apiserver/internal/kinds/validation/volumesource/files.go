package volumesource

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	fileModeError = "must be a number between 0 and 0777 (octal), both inclusive"
	maxFileMode   = 0o777
)

// HostPath validates a volume that is a path on its node.
func HostPath(source *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if source.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	var errs field.ErrorList
	errs = append(errs, NoBacksteps(source.Path, at.Child("path"))...)
	kinds := []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate,
		corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev,
	}
	if source.Type != nil && !slices.Contains(kinds, *source.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), *source.Type, slices.Sorted(slices.Values(kinds))))
	}
	return errs
}

// NFS validates a volume that is a share of an NFS server.
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
		}
		errs = append(errs, localPath(item.Path, p.Child("path"))...)
		errs = append(errs, mode(item.Mode, p.Child("mode"))...)
	}
	return errs
}

// localPath validates the path of a file in a volume that the node agent writes: names that begin
// with two dots are reserved for the node agent.
func localPath(p string, at *field.Path) field.ErrorList {
	errs := Descending(p, at)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(at, p, "must not start with '..'"))
	}
	return errs
}

// Descending validates a path that must be relative and must not leave its starting directory.
func Descending(p string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must be a relative path"))
	}
	return append(errs, NoBacksteps(p, path)...)
}

// NoBacksteps validates a path that must not have the element "..".
func NoBacksteps(p string, path *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
	}
	return nil
}

func downward(file *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if file.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	errs = append(errs, localPath(file.Path, at.Child("path"))...)
	switch {
	case file.FieldRef != nil:
		errs = append(errs, FieldRef(file.FieldRef, volumeFields(), at.Child("fieldRef"))...)
		if file.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case file.ResourceFieldRef != nil:
		errs = append(errs, ResourceRef(file.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, mode(file.Mode, at.Child("mode"))...)
}
