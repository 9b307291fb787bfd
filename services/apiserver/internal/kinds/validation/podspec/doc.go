// Package podspec validates the specs of pods and of pod templates.
package podspec
