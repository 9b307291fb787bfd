// Package contention notices when something undoes what a controller writes, and slows the controller
// down for that key: it then writes at most 30 times in any minute, and says so once. Kubernetes'
// controllers write again for as long as they are undone, as fast as their queue allows.
//
// There are three signs, each counted by the key whose reconcile made the write:
//   - It writes the same content to one object again and again, and the object has changed in between.
//   - What it creates is deleted, or fails, and so does what it creates in its place. What the controller deletes
//     itself counts if it is younger than two seconds.
//   - Its writes conflict, again and again.
//
// Ten of a sign in a row are contention, for the first two within a minute, and for creations only if most
// of them are lost. It is over after a minute without any. One of the writes is kept for statuses. A workload
// that needs many writes shows none of the signs: its writes differ, and what it creates stays.
//
// A status that returns within two seconds to an earlier content, ten times within a minute, slows down the statuses of
// that key in the same way, and no other of its writes: something changes the wanted state as soon as it is reached.
package contention
