!> Fortran 2008 interface of pfpl, over iso_c_binding.  See pfpl.h for what each call promises.
!>
!> Every procedure has the C name and arguments.  What C takes as a pointer that may be NULL, and
!> every field and stream, is passed as c_loc of a target or c_null_ptr; statuses are integer(c_int).
module pfpl
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int32_t), parameter, public :: PFPL_F32 = 4, PFPL_F64 = 8
  integer(c_int), parameter, public :: PFPL_OK = 0, PFPL_OVERFLOW = 1, PFPL_NOT_A_STREAM = 2, PFPL_WRONG_TYPE = 3, &
    PFPL_WRONG_COUNT = 4, PFPL_BAD_HEADER = 5, PFPL_TRUNCATED = 6, PFPL_BAD_TABLE = 7, PFPL_CORRUPT_CHUNK = 8, &
    PFPL_INVALID_ARGUMENT = 100, PFPL_INVALID_BOUND = 101, PFPL_OUT_OF_RESOURCES = 102, PFPL_NO_DEVICE = 103, &
    PFPL_DEVICE_ERROR = 104, PFPL_PLAN_TOO_SMALL = 105, PFPL_INTERNAL_ERROR = 106

  type, bind(c), public :: pfpl_header
    integer(c_int64_t) :: n, stream_bytes, chunks
    real(c_float) :: bound
    integer(c_int32_t) :: element, wide, reserved
  end type

  type, bind(c), public :: pfpl_damage
    integer(c_int64_t) :: chunk, offset
  end type

  integer(c_int32_t), parameter, public :: PFPL_CUDA = 1, PFPL_HIP = 2

  type, bind(c), public :: pfpl_capacity
    integer(c_int64_t) :: fields, chunks
  end type

  !> In device memory.
  type, bind(c), public :: pfpl_outcome
    integer(c_int64_t) :: stream_bytes
    integer(c_int32_t) :: status, chunk
  end type

  !> Addresses are device memory.
  type, bind(c), public :: pfpl_encode
    type(c_ptr) :: field
    integer(c_int64_t) :: n
    real(c_double) :: bound
    type(c_ptr) :: stream
    integer(c_int64_t) :: capacity
    type(c_ptr) :: outcome
    integer(c_int32_t) :: element, reserved = 0
  end type

  !> Addresses are device memory.
  type, bind(c), public :: pfpl_decode
    type(c_ptr) :: stream
    integer(c_int64_t) :: bytes, n
    type(c_ptr) :: field
    integer(c_int64_t) :: first, count
    type(c_ptr) :: outcome
    integer(c_int32_t) :: element, reserved = 0
  end type

  public :: pfpl_capacity_of, pfpl_plan_new, pfpl_plan_reserve, pfpl_plan_free, pfpl_plan_compress, pfpl_plan_decompress
  public :: pfpl_version, pfpl_format_version, pfpl_power_of_two_bound, pfpl_max_stream_bytes, pfpl_read_header, pfpl_stream_bytes
  public :: pfpl_pool_new, pfpl_pool_free, pfpl_compress, pfpl_compress_into, pfpl_free, pfpl_decompress, pfpl_decompress_range
  public :: pfpl_status_text

  interface
    integer(c_int32_t) function pfpl_version() bind(c)
      import
    end function
    integer(c_int32_t) function pfpl_format_version() bind(c)
      import
    end function
    real(c_double) function pfpl_power_of_two_bound(bound) bind(c)
      import
      real(c_double), value :: bound
    end function
    integer(c_int64_t) function pfpl_max_stream_bytes(element, n) bind(c)
      import
      integer(c_int32_t), value :: element
      integer(c_int64_t), value :: n
    end function
    integer(c_int) function pfpl_read_header(stream, bytes, header) bind(c)
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: bytes
      type(pfpl_header), intent(out) :: header
    end function
    integer(c_int) function pfpl_stream_bytes(stream, bytes, stream_bytes) bind(c)
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: bytes
      integer(c_int64_t), intent(out) :: stream_bytes
    end function
    integer(c_int) function pfpl_pool_new(threads, pool) bind(c)
      import
      integer(c_int32_t), value :: threads
      type(c_ptr), intent(out) :: pool
    end function
    subroutine pfpl_pool_free(pool) bind(c)
      import
      type(c_ptr), value :: pool
    end subroutine
    integer(c_int) function pfpl_compress_into(element, field, n, bound, stream, capacity, stream_bytes, pool) bind(c)
      import
      integer(c_int32_t), value :: element
      type(c_ptr), value :: field, stream, pool
      integer(c_int64_t), value :: n, capacity
      real(c_double), value :: bound
      integer(c_int64_t), intent(out) :: stream_bytes
    end function
    integer(c_int) function pfpl_compress(element, field, n, bound, stream, stream_bytes, pool) bind(c)
      import
      integer(c_int32_t), value :: element
      type(c_ptr), value :: field, pool
      integer(c_int64_t), value :: n
      real(c_double), value :: bound
      type(c_ptr), intent(out) :: stream
      integer(c_int64_t), intent(out) :: stream_bytes
    end function
    subroutine pfpl_free(stream, stream_bytes) bind(c)
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: stream_bytes
    end subroutine
    integer(c_int) function pfpl_decompress(element, stream, bytes, field, n, stream_bytes, damage, pool) bind(c)
      import
      integer(c_int32_t), value :: element
      type(c_ptr), value :: stream, field, stream_bytes, damage, pool
      integer(c_int64_t), value :: bytes, n
    end function
    integer(c_int) function pfpl_decompress_range(element, stream, bytes, first, field, count, damage, pool) bind(c)
      import
      integer(c_int32_t), value :: element
      type(c_ptr), value :: stream, field, damage, pool
      integer(c_int64_t), value :: bytes, first, count
    end function
    type(pfpl_capacity) function pfpl_capacity_of(element, n) bind(c)
      import
      integer(c_int32_t), value :: element
      integer(c_int64_t), value :: n
    end function
    integer(c_int) function pfpl_plan_new(backend, context, device, stream, capacity, plan, message, message_bytes) bind(c)
      import
      integer(c_int32_t), value :: backend, device
      type(c_ptr), value :: context, stream, message
      type(pfpl_capacity), value :: capacity
      type(c_ptr), intent(out) :: plan
      integer(c_int64_t), value :: message_bytes
    end function
    integer(c_int) function pfpl_plan_reserve(plan, capacity) bind(c)
      import
      type(c_ptr), value :: plan
      type(pfpl_capacity), value :: capacity
    end function
    subroutine pfpl_plan_free(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end subroutine
    integer(c_int) function pfpl_plan_compress(plan, stream, fields, count) bind(c)
      import
      type(c_ptr), value :: plan, stream
      integer(c_int64_t), value :: count
      type(pfpl_encode), intent(in) :: fields(*)
    end function
    integer(c_int) function pfpl_plan_decompress(plan, stream, fields, count) bind(c)
      import
      type(c_ptr), value :: plan, stream
      integer(c_int64_t), value :: count
      type(pfpl_decode), intent(in) :: fields(*)
    end function
    type(c_ptr) function status_string(status) bind(c, name="pfpl_status_string")
      import
      integer(c_int), value :: status
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  !> The words for a status.
  function pfpl_status_text(status) result(text)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    type(c_ptr) :: words
    integer :: i
    words = status_string(status)
    call c_f_pointer(words, bytes, [strlen(words)])
    allocate (character(len=size(bytes)) :: text)
    do i = 1, size(bytes)
      text(i:i) = bytes(i)
    end do
  end function

end module
