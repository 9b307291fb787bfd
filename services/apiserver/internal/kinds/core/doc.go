// Package core defines the kinds of the core group. Pods, services and volumes have folders of their own.
package core
